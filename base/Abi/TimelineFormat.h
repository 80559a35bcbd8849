// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The format of the buffer into which kernels compiled with a timeline write.
//
//   word 0            u32: number of chunks claimed, also if there was no room for them. The
//                     host clears the whole buffer before the launch.
//   chunk 1, 2, ...   of one warpgroup of one role of one block each, `words` 64-bit words long
//
// A chunk:
//
//   byte  0  u32 tag of the kernel     4  u32 role << 16 | warpgroup of the role
//         8  u32 block                12  u32 multiprocessor
//        16  u64 globaltimer (ns)     24  u64 clock64, when the role began
//        32  u64 globaltimer          40  u64 clock64, when it ended; 0: not ended
//        48  u64 records that were written
//        64  records: upper 16 bits: the number of the event times two, plus one at its end; lower
//            48 bits: clock64 modulo 2^48

#ifndef TILEWRIGHT_BASE_ABI_TIMELINEFORMAT_H
#define TILEWRIGHT_BASE_ABI_TIMELINEFORMAT_H

#include <cstdint>

namespace tilewright::timeline {

inline constexpr const char *argumentName = "timeline";
inline constexpr int64_t wordBytes = 8;
inline constexpr int64_t headerBytes = 64;
inline constexpr int64_t leastWords = 64, mostWords = 65536, defaultWords = 4096; // powers of 2
inline constexpr unsigned clockBits = 48;
inline constexpr uint32_t maxEvents = 1u << 15;
enum : int64_t {
  atTag = 0,
  atSlot = 4,
  atBlock = 8,
  atProcessor = 12,
  atBegin = 16,
  atEnd = 32,
  atCount = 48
};

inline constexpr bool isChunkSize(int64_t words) {
  return words >= leastWords && words <= mostWords && (words & (words - 1)) == 0;
}

} // namespace tilewright::timeline

#endif // TILEWRIGHT_BASE_ABI_TIMELINEFORMAT_H
