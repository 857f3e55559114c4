/* Ids: every value has one, and it is found again. */
#include "test.h"

#include "core.h"

#include <string.h>

TEST(words_round, "words: each value's id is found as that value, in every list")
{
    for (int l = 0; l < VRAM_LIST_COUNT; l++) {
        vram_list list = (vram_list)l;
        CHECK(vram_count(list) > 0, "list %d", l);
        if (list == VRAM_LIST_SYMBOL) continue; /* what stands on the whiteboard: two ideas may share a letter */
        for (int i = 0; i < vram_count(list); i++) {
            const char *id = vram_name(list, i);
            CHECK(id[0] != '\0', "list %d, value %d", l, i);
            CHECK(strlen(id) < VRAM_MAX_NAME, "%s", id);
            CHECK(vram_find(list, id) == i, "list %d, %s", l, id);
        }
    }
}

TEST(words_outside, "words: nothing outside a list")
{
    for (int l = 0; l < VRAM_LIST_COUNT; l++) {
        vram_list list = (vram_list)l;
        CHECK(vram_name(list, -1)[0] == '\0', "list %d", l);
        CHECK(vram_name(list, vram_count(list))[0] == '\0', "list %d", l);
        CHECK(vram_find(list, "no such id") == -1, "list %d", l);
        CHECK(vram_find(list, "") == -1, "list %d", l);
        CHECK(vram_find(list, NULL) == -1, "list %d", l);
    }
    CHECK(vram_count(VRAM_LIST_COUNT) == 0, "no such list");
}

TEST(words_case, "words: ids are told apart by case")
{
    CHECK(vram_find(VRAM_LIST_TASK, "Training") == -1, "Training");
    CHECK(vram_find(VRAM_LIST_FORMAT, "BF16") == -1, "BF16");
}
