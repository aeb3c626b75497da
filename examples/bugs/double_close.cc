// Two objects own one descriptor: a class that closes it is copied.
#include <fcntl.h>
#include <unistd.h>

namespace http {
struct Connection {
    int fd;
    ~Connection()
    {
        close(fd);
    }
};

void serve(Connection connection)
{
    (void)connection;
}
} // namespace http

int main()
{
    http::Connection connection{open("/dev/null", O_RDONLY)};
    http::serve(connection);
    return 0;
}
