/* replay.c -- runs the files named as arguments through a fuzz target, without a fuzzer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    size_t room = (size_t)8 << 20, bytes = 0;
    uint8_t *data = malloc(room);
    if (data) bytes = fread(data, 1, room, file);
    int whole = data && feof(file);
    fclose(file);
    uint8_t *exact = whole ? malloc(bytes ? bytes : 1) : NULL; /* of exactly its size, so that a read past the end is seen */
    if (exact) {
        for (size_t i = 0; i < bytes; i++) exact[i] = data[i];
        LLVMFuzzerTestOneInput(exact, bytes);
    }
    whole = exact != NULL;
    free(exact);
    free(data);
    return whole;
}

int main(int count, char **paths)
{
    for (int i = 1; i < count; i++)
        if (!replay(paths[i])) { fprintf(stderr, "%s: cannot be read\n", paths[i]); return 1; }
    printf("%d inputs\n", count - 1);
    return 0;
}
