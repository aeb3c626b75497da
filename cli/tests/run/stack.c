// Code on the stack: a program whose header asks for a stack that can be executed.
#include <stdio.h>

int main(void) {
  // mov eax, 42; ret
  volatile unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3};
  printf("%d\n", ((int (*)(void))code)());
  return 0;
}
