// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// _dl_find_object, of glibc 2.35, for the static unwinder (libgcc_eh), which has no other way to
// find the unwind table of an address: without it a `catch` becomes a call of std::terminate. The
// search visits all loaded objects, as libgcc does where glibc is older. Nothing is kept between
// calls, so that an object that was unloaded is never found.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)

struct Search {
  uintptr_t address;
  struct dl_find_object *result;
};

/// Called for each object, while no other thread can load or unload one.
static int visit(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  const struct Search *search = context;
  uintptr_t first = UINTPTR_MAX, last = 0;
  const void *frames = NULL;
  int isInside = 0;
  for (ElfW(Half) i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;
    if (part->p_type == PT_GNU_EH_FRAME)
      frames = (const void *)begin;
    if (part->p_type != PT_LOAD)
      continue;
    first = begin < first ? begin : first;
    last = end > last ? end : last;
    isInside |= search->address >= begin && search->address < end;
  }
  // The unwinder reads the table without a test.
  if (!isInside || !frames)
    return 0;
  struct dl_find_object result = {0};
  result.dlfo_map_start = (void *)first;
  result.dlfo_map_end = (void *)last;
  result.dlfo_eh_frame = (void *)frames;
  // dlfo_link_map stays null: dl_iterate_phdr does not tell it, and the unwinder does not read it.
  *search->result = result;
  return 1;
}

/// 0 if `address` is in an object with an unwind table, else -1.
__attribute__((visibility("hidden"))) int _dl_find_object(void *address,
                                                          struct dl_find_object *result) {
  struct Search search = {(uintptr_t)address, result};
  return dl_iterate_phdr(visit, &search) == 1 ? 0 : -1;
}

#endif // else the unwinder of this system does not call it
