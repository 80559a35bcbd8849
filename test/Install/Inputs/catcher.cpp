// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// catcher FIRST SECOND: throws in the libraries FIRST and SECOND (copies of thrower.cpp) and in
// itself, also in threads and while libraries come and go.

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#define CHECK(condition)                                                                           \
  do                                                                                               \
    if (!(condition)) {                                                                            \
      std::printf("catcher: line %d: %s\n", __LINE__, #condition);                                 \
      std::exit(1);                                                                                \
    }                                                                                              \
  while (false)

namespace {
class Library {
public:
  explicit Library(const char *path) : handle(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (!handle)
      std::printf("catcher: %s\n", dlerror());
    CHECK(handle);
    throwAndCatch = reinterpret_cast<int (*)(int)>(dlsym(handle, "throwAndCatch"));
    randomBits = reinterpret_cast<unsigned (*)()>(dlsym(handle, "randomBits"));
    CHECK(throwAndCatch && randomBits);
  }
  ~Library() { dlclose(handle); }

  void run() const {
    CHECK(throwAndCatch(20) == 0);
    std::thread([this] { CHECK(throwAndCatch(30) == 0); }).join();
  }
  uintptr_t base() const {
    link_map *map = nullptr;
    CHECK(dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0);
    return map->l_addr;
  }

  int (*throwAndCatch)(int);
  unsigned (*randomBits)();

private:
  void *handle;
};

int thrownHere() {
  try {
    throw std::runtime_error("here");
  } catch (const std::exception &error) {
    return error.what() == std::string("here") ? 0 : 1;
  }
}
} // namespace

int main(int argc, char **argv) {
  CHECK(argc == 3);
  CHECK(thrownHere() == 0);
  Library second(argv[2]);
  second.run();
  {
    Library first(argv[1]);
    first.run();
    second.run();
    CHECK(thrownHere() == 0);
  }
  // FIRST is unloaded. What is mapped in its place has its own table.
  CHECK(!dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD));
  second.run();
  for (int i = 0; i < 3; ++i) {
    Library first(argv[1]);
    first.run();
    second.run();
  }
  // While another thread loads and unloads FIRST.
  std::thread other([&] {
    for (int i = 0; i < 50; ++i)
      Library(argv[1]).run();
  });
  for (int i = 0; i < 500; ++i)
    CHECK(second.throwAndCatch(5) == 0);
  other.join();

  std::set<unsigned> numbers;
  for (int i = 0; i < 100; ++i)
    numbers.insert(second.randomBits());
  CHECK(numbers.size() > 95);
  std::printf("catcher: %p, all caught\n", reinterpret_cast<void *>(second.base()));
}
