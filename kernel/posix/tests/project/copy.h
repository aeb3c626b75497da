long copy(const char *from, const char *to);
long size_of(const char *path);
