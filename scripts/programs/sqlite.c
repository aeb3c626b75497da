/* A database on the path that is given: 100,000 rows in transactions, a check of the whole, and two
 * connections that want the same lock. Prints what it finds, the same for every kernel. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(sqlite3 *db, const char *what, int code) {
    fprintf(stderr, "%s: %d, %s\n", what, code, sqlite3_errmsg(db));
    exit(1);
}

static void run(sqlite3 *db, const char *statement) {
    int code = sqlite3_exec(db, statement, NULL, NULL, NULL);
    if (code != SQLITE_OK) {
        fail(db, statement, code);
    }
}

static int print_row(void *name, int count, char **values, char **columns) {
    (void)columns;
    for (int i = 0; i < count; i++) {
        printf("%s: %s\n", (char *)name, values[i] ? values[i] : "NULL");
    }
    return 0;
}

static void ask(sqlite3 *db, const char *question) {
    int code = sqlite3_exec(db, question, print_row, (void *)question, NULL);
    if (code != SQLITE_OK) {
        fail(db, question, code);
    }
}

static sqlite3 *open_database(const char *path) {
    sqlite3 *db;
    int code = sqlite3_open(path, &db);
    if (code != SQLITE_OK) {
        fail(db, path, code);
    }
    return db;
}

static void insert(sqlite3 *db, int rows, int each) {
    sqlite3_stmt *statement;
    char text[64];
    run(db, "CREATE TABLE row(id INTEGER PRIMARY KEY, text TEXT, number INTEGER)");
    run(db, "CREATE INDEX row_number ON row(number)");
    sqlite3_prepare_v2(db, "INSERT INTO row(text, number) VALUES(?, ?)", -1, &statement, NULL);
    for (int i = 0; i < rows; i++) {
        if (i % each == 0) {
            run(db, "BEGIN");
        }
        snprintf(text, sizeof text, "the row with the number %d", i);
        sqlite3_bind_text(statement, 1, text, -1, SQLITE_TRANSIENT);
        sqlite3_bind_int(statement, 2, (int)((unsigned)i * 2654435761u >> 8));
        int code = sqlite3_step(statement);
        if (code != SQLITE_DONE) {
            fail(db, "insert", code);
        }
        sqlite3_reset(statement);
        if (i % each == each - 1) {
            run(db, "COMMIT");
        }
    }
    sqlite3_finalize(statement);
}

/* The second connection is refused while the first has the lock, and served afterwards. */
static void locks(const char *path) {
    sqlite3 *first = open_database(path), *second = open_database(path);
    run(first, "BEGIN EXCLUSIVE");
    run(first, "UPDATE row SET number = 1 WHERE id = (SELECT min(id) FROM row)");
    int code = sqlite3_exec(second, "UPDATE row SET number = 2 WHERE id = (SELECT min(id) FROM row)", NULL, NULL, NULL);
    printf("second connection, first has the lock: %s\n", sqlite3_errstr(code));
    run(first, "COMMIT");
    run(second, "UPDATE row SET number = number + 2 WHERE id = (SELECT min(id) FROM row)");
    ask(first, "SELECT number FROM row WHERE id = (SELECT min(id) FROM row)");
    sqlite3_close(first);
    sqlite3_close(second);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s PATH JOURNAL_MODE\n", argv[0]);
        return 2;
    }
    char journal[64];
    sqlite3 *db = open_database(argv[1]);
    snprintf(journal, sizeof journal, "PRAGMA journal_mode=%s", argv[2]);
    ask(db, journal);
    insert(db, 100000, 1000);
    ask(db, "PRAGMA integrity_check");
    ask(db, "SELECT count(*), sum(number), min(text), max(text) FROM row");
    run(db, "DELETE FROM row WHERE number % 3 = 0");
    run(db, "VACUUM");
    ask(db, "PRAGMA integrity_check");
    ask(db, "SELECT count(*), sum(number) FROM row");
    ask(db, "PRAGMA page_count");
    sqlite3_close(db);
    locks(argv[1]);
    db = open_database(argv[1]);
    ask(db, "PRAGMA integrity_check");
    sqlite3_close(db);
    return 0;
}
