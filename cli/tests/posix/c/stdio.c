/* Streams of stdio.h: reopened ones, the standard ones, modes. */
#include "check.h"

static char line[64];

/* Reads a line, without its end. */
static const char *line_of(FILE *stream) {
    char *text = fgets(line, sizeof line, stream);
    if (text) {
        text[strcspn(text, "\n")] = 0;
    }
    return text;
}

static void reopened(void) {
    make_file("a", "first\nsecond\n");
    make_file("b", "other\n");
    FILE *file = fopen("a", "r");
    int fd = fileno(file);
    TEXT(line_of(file));
    FILE *same = freopen("b", "r", file);
    VALUE(same == file);
    VALUE(fileno(same) == fd);
    TEXT(line_of(same));
    CALL(fgetc(same));
    VALUE(feof(same) != 0);
    same = freopen("a", "rb", same);
    VALUE(feof(same) != 0);
    CALL(ftell(same));
    TEXT(line_of(same));
    CALL(ftell(same));
    CALL(fputc('x', same));
    VALUE(ferror(same) != 0);
    same = freopen("c", "w", same);
    VALUE(ferror(same) != 0);
    CALL(fputs("written\n", same) >= 0);
    CALL(fgetc(same));
    same = freopen("c", "a", same);
    CALL(ftell(same));
    CALL(fputs("appended\n", same) >= 0);
    same = freopen("c", "r+", same);
    TEXT(line_of(same));
    TEXT(line_of(same));
    CALL(fseek(same, 0, SEEK_SET));
    CALL(fputs("W", same) >= 0);
    same = freopen("c", "re", same);
    TEXT(line_of(same));
    CALL(fcntl(fileno(same), F_GETFD));
    CALL(fclose(same));
    CALL(fcntl(fd, F_GETFD));
}

static void reopened_modes(void) {
    make_file("a", "text");
    FILE *file = fopen("a", "r");
    CALL(fgetc(file));
    file = freopen(NULL, "r+", file);
    VALUE(file != NULL);
    CALL(ftell(file));
    CALL(fputs("T", file) >= 0);
    file = freopen(NULL, "w", file);
    CALL(fclose(file));
    TEXT(file_text("a"));
}

static void reopened_in_vain(void) {
    make_file("a", "text");
    FILE *file = fopen("a", "r+");
    int fd = fileno(file);
    CALL(fputs("TE", file) >= 0);
    POINTER(freopen("missing/x", "w", file));
    CALL(fcntl(fd, F_GETFD));
    TEXT(file_text("a"));
    file = fopen("a", "r");
    POINTER(freopen("a", "?", file));
    CALL(fcntl(fd, F_GETFD));
}

static void standard_input(void) {
    make_file("a", "first\nsecond\n");
    make_file("b", "other\n");
    VALUE(freopen("a", "r", stdin) != NULL);
    VALUE(fileno(stdin));
    TEXT(line_of(stdin));
    VALUE(freopen("b", "r", stdin) != NULL);
    VALUE(getchar());
    CALL(ungetc('O', stdin));
    TEXT(line_of(stdin));
    VALUE(getchar());
    clearerr(stdin);
    CALL(open("a", O_RDONLY));
    CALL(dup2(3, 0));
    TEXT(line_of(stdin));
    CALL(fclose(stdin));
    CALL(fcntl(0, F_GETFD));
}

static void redirected_input(void) {
    make_file("a", "first\nsecond\n");
    CALL(open("a", O_RDONLY));
    CALL(dup2(3, 0));
    TEXT(line_of(stdin));
    CALL(close(0));
    clearerr(stdin);
    CALL(open("a", O_RDONLY));
    char word[16] = "";
    CALL(scanf("%15s", word));
    TEXT(word);
}

static void standard_output(void) {
    int saved = dup(1);
    VALUE(saved);
    FILE *same = freopen("out", "w", stdout);
    puts("by puts");
    printf("by printf, %d\n", same == stdout);
    fflush(stdout);
    dup2(saved, 1);
    TEXT(file_text("out"));
    int fd = open("again", O_WRONLY | O_CREAT, 0644);
    fputs("not flushed, ", stdout);
    dup2(fd, 1);
    puts("and redirected");
    fflush(stdout);
    dup2(saved, 1);
    TEXT(file_text("again"));
    close(1);
    open("third", O_WRONLY | O_CREAT, 0644);
    puts("lowest");
    fflush(stdout);
    dup2(saved, 1);
    TEXT(file_text("third"));
}

static void standard_error(void) {
    VALUE(freopen("err", "w", stderr) != NULL);
    fprintf(stderr, "%s", "at once");
    TEXT(file_text("err"));
    fflush(stderr);
    TEXT(file_text("err"));
    VALUE(fileno(stderr));
    CALL(setvbuf(stderr, NULL, _IONBF, 0));
    fprintf(stderr, "%s", ", unbuffered");
    TEXT(file_text("err"));
    VALUE(freopen("err", "a", stderr) != NULL);
    fprintf(stderr, "%s", ", appended");
    TEXT(file_text("err"));
    fflush(stderr);
    TEXT(file_text("err"));
}

static void appended(void) {
    make_file("a", "12345");
    FILE *file = fopen("a", "a");
    CALL(ftell(file));
    CALL(lseek(fileno(file), 0, SEEK_CUR));
    CALL(fputs("6", file) >= 0);
    CALL(ftell(file));
    CALL(fclose(file));
    file = fopen("a", "a+");
    CALL(ftell(file));
    CALL(fgetc(file));
    CALL(fputs("7", file) >= 0);
    CALL(fclose(file));
    TEXT(file_text("a"));
    CALL(open("a", O_WRONLY));
    file = fdopen(3, "a");
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(fputs("8", file) >= 0);
    CALL(fclose(file));
    CALL(open("a", O_WRONLY | O_APPEND));
    file = fdopen(3, "a");
    CALL(lseek(3, 0, SEEK_CUR));
    CALL(fclose(file));
    TEXT(file_text("a"));
}

static void modes(void) {
    make_file("a", "text");
    FILE *file = fopen("a", "rm");
    VALUE(file != NULL);
    CALL(fclose(file));
    file = fopen("a", "r,ccs=UTF-8");
    VALUE(file != NULL);
    CALL(fclose(file));
    file = fopen("a", "r");
    CALL(setvbuf(file, NULL, _IONBF, 0));
    CALL(fgetc(file));
    CALL(lseek(fileno(file), 0, SEEK_CUR));
    CALL(fclose(file));
}

static const struct section sections[] = {
    {"reopened", reopened},
    {"reopened_modes", reopened_modes},
    {"reopened_in_vain", reopened_in_vain},
    {"standard_input", standard_input},
    {"redirected_input", redirected_input},
    {"standard_output", standard_output},
    {"standard_error", standard_error},
    {"appended", appended},
    {"modes", modes},
    {NULL, NULL},
};
const struct theme stdio = {"stdio", sections};
