/* eventfd and timerfd. */
#include "check.h"

static uint64_t value;

static void counters(void) {
    CALL(eventfd(3, 0));
    VALUE(fcntl(3, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
    CALL(read(3, &value, 8));
    VALUE(value);
    CALL(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    CALL(fcntl(4, F_GETFD));
    CALL(read(4, &value, 8));
    value = 5;
    CALL(write(4, &value, 8));
    CALL(write(4, &value, 8));
    CALL(read(4, &value, 7));
    CALL(read(4, &value, 16));
    VALUE(value);
    CALL(write(4, &value, 7));
    CALL(write(4, &value, 0));
    value = UINT64_MAX;
    CALL(write(4, &value, 8));
    value = UINT64_MAX - 1;
    CALL(write(4, &value, 8));
    value = 1;
    CALL(write(4, &value, 8));
    value = 0;
    CALL(write(4, &value, 8));
    CALL(read(4, &value, 8));
    VALUE(value == UINT64_MAX - 1);
    CALL(write(4, bad, 8));
    CALL(write(4, (eventfd_t[2]){1, 1}, 16));
    eventfd_t pair[2] = {3, 5};
    struct iovec both[] = {{&pair[0], 8}, {&pair[1], 8}}, halves[] = {{pair, 4}, {(char *)pair + 4, 4}};
    CALL(writev(4, both, 2));
    CALL(read(4, &value, 8));
    VALUE(value);
    CALL(writev(4, halves, 2));
    CALL(writev(4, (struct iovec[]){both[0], halves[0]}, 2));
    CALL(read(4, pair, 8));
    CALL(eventfd_write(4, 1));
    CALL(read(4, bad, 8));
    CALL(eventfd_read(4, &value));
    CALL(eventfd_read(99, &value));
    CALL(eventfd_write(99, 1));
    CALL(eventfd(0, 0x40000000));
    CALL(lseek(4, 0, SEEK_SET));
    CALL(pread(4, &value, 8, 0));
}

static void semaphores(void) {
    CALL(eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK));
    CALL(read(3, &value, 8));
    VALUE(value);
    CALL(read(3, &value, 8));
    VALUE(value);
    CALL(read(3, &value, 8));
}

static void *add_slowly(void *argument) {
    pause_ms(30);
    eventfd_write(*(int *)argument, 7);
    return NULL;
}

static void *take_slowly(void *argument) {
    eventfd_t taken;
    pause_ms(30);
    eventfd_read(*(int *)argument, &taken);
    return NULL;
}

static void woken(void) {
    pthread_t thread;
    int fd = eventfd(0, 0);
    pthread_create(&thread, NULL, add_slowly, &fd);
    CALL(eventfd_read(fd, &value));
    VALUE(value);
    pthread_join(thread, NULL);
    CALL(eventfd_write(fd, UINT64_MAX - 1));
    pthread_create(&thread, NULL, take_slowly, &fd);
    CALL(eventfd_write(fd, 9));
    pthread_join(thread, NULL);
    CALL(eventfd_read(fd, &value));
    VALUE(value);
}

static void timers(void) {
    struct itimerspec soon = {.it_value.tv_nsec = 100000000}, each = soon, left, never = {0};
    struct itimerspec wrong = {.it_value.tv_nsec = 1000000000};
    struct itimerspec negative = {.it_value.tv_sec = -1};
    each.it_interval.tv_nsec = 5000000;
    CALL(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    CALL(timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC));
    CALL(fcntl(4, F_GETFD));
    CALL(timerfd_create(CLOCK_BOOTTIME, 0));
    CALL(timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0));
    CALL(timerfd_create(12345, 0));
    CALL(timerfd_create(CLOCK_MONOTONIC, 0x40000000));
    CALL(read(3, &value, 8));
    CALL(timerfd_gettime(3, &left));
    VALUE(left.it_value.tv_nsec + left.it_interval.tv_nsec);
    CALL(timerfd_settime(3, 0, &soon, NULL));
    CALL(read(3, &value, 8));
    CALL(timerfd_gettime(3, &left));
    VALUE(left.it_value.tv_sec == 0 && left.it_value.tv_nsec > 0);
    struct pollfd one = {3, POLLIN, 0};
    CALL(poll(&one, 1, 0));
    CALL(poll(&one, 1, 2000));
    CALL(read(3, &value, 7));
    CALL(read(3, &value, 8));
    VALUE(value);
    CALL(read(3, &value, 8));
    CALL(timerfd_gettime(3, &left));
    VALUE(left.it_value.tv_nsec);
    CALL(timerfd_settime(3, 0, &each, NULL));
    CALL(timerfd_settime(3, 0, &each, &left));
    VALUE(left.it_interval.tv_nsec);
    pause_ms(60);
    CALL(read(3, &value, 8));
    VALUE(value >= 5);
    CALL(timerfd_settime(3, 0, &never, NULL));
    pause_ms(10);
    CALL(read(3, &value, 8));
    CALL(timerfd_settime(3, 0, &wrong, NULL));
    CALL(timerfd_settime(3, 0, &negative, NULL));
    CALL(timerfd_settime(3, 77, &soon, NULL));
    CALL(timerfd_settime(3, 0, bad, NULL));
    CALL(timerfd_settime(3, 0, &soon, bad));
    CALL(timerfd_settime(99, 0, &soon, NULL));
    CALL(timerfd_gettime(99, &left));
    CALL(timerfd_gettime(3, bad));
    CALL(open("file", O_RDWR | O_CREAT, 0644));
    CALL(timerfd_settime(6, 0, &soon, NULL));
    CALL(timerfd_gettime(6, &left));
    CALL(write(3, &value, 8));
    CALL(lseek(3, 0, SEEK_SET));
}

static void absolute(void) {
    struct itimerspec at = {0};
    CALL(timerfd_create(CLOCK_MONOTONIC, 0));
    clock_gettime(CLOCK_MONOTONIC, &at.it_value);
    at.it_value.tv_sec -= 1;
    CALL(timerfd_settime(3, TFD_TIMER_ABSTIME, &at, NULL));
    CALL(read(3, &value, 8));
    VALUE(value);
    clock_gettime(CLOCK_MONOTONIC, &at.it_value);
    at.it_value.tv_sec -= 1;
    at.it_interval.tv_nsec = 100000000;
    CALL(timerfd_settime(3, TFD_TIMER_ABSTIME, &at, NULL));
    CALL(read(3, &value, 8));
    VALUE(value >= 11);
    CALL(timerfd_create(CLOCK_REALTIME, 0));
    clock_gettime(CLOCK_REALTIME, &at.it_value);
    CALL(timerfd_settime(4, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &at, NULL));
    CALL(read(4, &value, 8));
}

static const struct section sections[] = {
    {"counters", counters}, {"semaphores", semaphores}, {"woken", woken},
    {"timers", timers},     {"absolute", absolute},     {NULL, NULL},
};
const struct theme events = {"events", sections};
