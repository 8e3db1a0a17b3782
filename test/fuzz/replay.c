/* Runs a fuzz target over every file of its corpus, and over every prefix and
 * some damaged copies of each: `replay_NAME DIRECTORY`, results as TAP. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of exactly this size, so that the sanitizer sees a step beyond it. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void run_damaged(uint8_t *data, size_t size)
{
    size_t step = size / 512 + 1;
    for (size_t i = 0; i < size; i += step) {
        uint8_t kept = data[i];
        run(data, i);
        for (int bit = 0; bit < 8; bit += 3) {
            data[i] = kept ^ (uint8_t)(1 << bit);
            run(data, size);
        }
        data[i] = 0;
        run(data, size);
        data[i] = kept;
    }
}

static bool run_file(const char *directory, const char *name)
{
    enum { FILE_MAX = 1 << 20 };
    static uint8_t data[FILE_MAX];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    run(data, size);
    run_damaged(data, size);
    return true;
}

static int compare(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    int n = argc == 2 ? scandir(argv[1], &entries, NULL, compare) : -1, n_run = 0;
    if (n < 0) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            bool is_read = run_file(argv[1], entries[i]->d_name);
            printf("%s %d - %s\n", is_read ? "ok" : "not ok", ++n_run, entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    printf("1..%d\n", n_run);
    return n_run == 0;
}
