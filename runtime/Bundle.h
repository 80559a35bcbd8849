// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bundles: one file with a manifest and code, made by the compiler and read-only afterwards.
//
//   offset  bytes
//   0       8      "TWBUNDLE"
//   8       4      version of this format; all numbers are little-endian
//   12      4      zero
//   16      8      bytes of the whole file
//   24      8      checksum of everything from offset 32 on
//   32      8      bytes of the manifest
//   40      4      number of blobs
//   44      4      zero
//   48             bytes of each blob, 8 each; then the manifest; then each blob, at the next
//                  multiple of 16

#ifndef TILEWRIGHT_RUNTIME_BUNDLE_H
#define TILEWRIGHT_RUNTIME_BUNDLE_H

#include "runtime/Manifest.h"

namespace tilewright::runtime {

inline constexpr uint32_t bundleVersion = 1;

class Bundle {
public:
  static Result<std::shared_ptr<const Bundle>> open(const std::string &path);
  /// `name` is for messages.
  static Result<std::shared_ptr<const Bundle>> fromBytes(std::string bytes,
                                                         const std::string &name = "bundle");

  const std::string &name() const { return fileName; }
  const Manifest &manifest() const { return content; }
  std::string_view blob(size_t index) const { return blobs[index]; }

  /// The command that compiles the code that the bundle lacks; `params` and `arch` as far as they
  /// are known (an empty `arch` is not).
  std::string compileCommand(const std::string &entry, const Params &params,
                             const std::string &arch) const;

private:
  Bundle() = default;
  std::string fileName, bytes;
  Manifest content;
  std::vector<std::string_view> blobs;
};

class BundleWriter {
public:
  Manifest manifest;

  /// Returns the blob's index; equal blobs are stored once. PTX gets its final NUL here.
  size_t addPtx(const std::string &text) { return addBlob(text + '\0'); }
  size_t addCubin(std::string cubin) { return addBlob(std::move(cubin)); }

  /// Fails if a reader would fail.
  Status check() const;
  /// The file, unless the check fails.
  Result<std::string> bytes() const;
  /// Writes a temporary file in the folder of `path` and renames it.
  Status write(const std::string &path) const;

private:
  size_t addBlob(std::string blob);
  std::vector<std::string> blobs;
};

/// Whether code has the entry of a kernel: PTX declares it, a cubin names it. Code::BadBundle.
Status checkEntry(const KernelSpec &kernel, CodeSpec::Kind kind, std::string_view code);

/// Reads a whole file, of at most 2 GiB. If it does not begin with `prefix`, only its beginning is
/// read. Writes a temporary file in the same folder and renames it. Code::Io.
Result<std::string> readFile(const std::string &path, std::string_view prefix = {});
Status writeFileAtomically(const std::string &path, std::string_view bytes);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_BUNDLE_H
