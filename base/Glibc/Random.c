// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// arc4random, of glibc 2.36, for LLVM's names of temporary files and std::random_device: 32 random
// bits of the kernel.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

/// Where a sandbox refuses getrandom. Returns whether all bytes were read.
static int readDevice(void *bytes, ssize_t size) {
  int file = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return 0;
  ssize_t got;
  do
    got = read(file, bytes, size);
  while (got < 0 && errno == EINTR);
  close(file);
  return got == size;
}

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value;
  ssize_t got;
  do // a request of up to 256 bytes is answered as a whole
    got = getrandom(&value, sizeof value, 0);
  while (got < 0 && errno == EINTR);
  if (got != sizeof value && !readDevice(&value, sizeof value))
    abort(); // as glibc: the result has no value for a failure
  return value;
}
