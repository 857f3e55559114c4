/* cJSON's traps, each as it is: json/ is written around them, and a new cJSON that behaves otherwise is seen here first. */
#include "test.h"

#include "cJSON.h"

#include <math.h>
#include <string.h>

TEST(cjson_version, "cJSON: is a 1.7")
{
    CHECK(strncmp(cJSON_Version(), "1.7.", 4) == 0, "%s", cJSON_Version());
}

TEST(cjson_valueint, "cJSON: valueint saturates, valuedouble does not")
{
    cJSON *item = cJSON_Parse("1e300");
    CHECK(item->valueint == 2147483647, "%d", item->valueint);
    CHECK(same(item->valuedouble, 1e300), "%g", item->valuedouble);
    cJSON_Delete(item);
}

TEST(cjson_infinity, "cJSON: 1e400 is infinity")
{
    cJSON *item = cJSON_Parse("1e400");
    CHECK(item && isinf(item->valuedouble), "1e400");
    cJSON_Delete(item);
}

static bool printed_whole(double number)
{
    cJSON *item = cJSON_CreateNumber(number);
    char *text = cJSON_PrintUnformatted(item);
    cJSON *back = cJSON_Parse(text);
    bool whole = same(back->valuedouble, number);
    cJSON_Delete(back);
    cJSON_free(text);
    cJSON_Delete(item);
    return whole;
}

TEST(cjson_digits, "cJSON: whole numbers below 10^15 are printed whole, larger ones lose digits")
{
    static const double numbers[] = {0, 1, 112e9, 18294967296.0, 999999999999999.0};
    for (int i = 0; i < COUNT(numbers); i++) CHECK(printed_whole(numbers[i]), "%.0f", numbers[i]);
    CHECK(!printed_whole(9007199254740991.0), "2^53 - 1");
}

TEST(cjson_tail, "cJSON: a tail is ignored unless asked for")
{
    cJSON *item = cJSON_Parse("{} tail");
    CHECK(item != NULL, "no complaint about the tail");
    cJSON_Delete(item);
    const char *end = NULL;
    CHECK(cJSON_ParseWithOpts("{} tail", &end, 1) == NULL, "asked for");
}

TEST(cjson_duplicates, "cJSON: duplicate keys are kept, and the first is found")
{
    cJSON *item = cJSON_Parse("{\"a\":1,\"a\":2}");
    CHECK(cJSON_GetArraySize(item) == 2, "%d", cJSON_GetArraySize(item));
    CHECK(cJSON_GetObjectItemCaseSensitive(item, "a")->valueint == 1, "the first");
    cJSON_Delete(item);
}

TEST(cjson_case, "cJSON: plain lookup ignores case")
{
    cJSON *item = cJSON_Parse("{\"Task\":1}");
    CHECK(cJSON_GetObjectItem(item, "task") != NULL, "plain");
    CHECK(cJSON_GetObjectItemCaseSensitive(item, "task") == NULL, "case-sensitive");
    cJSON_Delete(item);
}

TEST(cjson_nesting, "cJSON: nests a thousand deep by itself")
{
    char text[2100];
    memset(text, '[', 900);
    memset(text + 900, ']', 900);
    text[1800] = 0;
    cJSON *item = cJSON_Parse(text);
    CHECK(item != NULL, "900 levels");
    cJSON_Delete(item);
}

TEST(cjson_bytes, "cJSON: bytes that are not UTF-8 pass")
{
    cJSON *item = cJSON_Parse("\"\xff\xfe\"");
    CHECK(item && strlen(item->valuestring) == 2, "passed through");
    cJSON_Delete(item);
}
