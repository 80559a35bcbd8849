// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files in NumPy's format, malformed files, and conversions.

#include "base/Npy/Npy.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <sys/stat.h>

using namespace tilewright;

namespace {

using Shape = std::vector<int64_t>;

/// A file of version `major`.0 with exactly this header and these data.
std::string fileOf(const std::string &header, const std::string &data, unsigned char major = 1) {
  std::string file("\x93NUMPY", 6);
  file += char(major);
  file += '\0';
  for (size_t i = 0; i < (major == 1 ? 2u : 4u); ++i)
    file += char(header.size() >> (8 * i) & 0xff);
  return file + header + data;
}

std::string headerOf(const std::string &descr, const std::string &shape, bool isFortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (isFortran ? "True" : "False") +
         ", 'shape': " + shape + ", }  \n";
}

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
}

template <typename T> std::vector<T> valuesOf(const NpyArray &array) {
  std::vector<T> values(array.bytes.size() / sizeof(T));
  if (!values.empty())
    std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

Result<NpyArray> parse(const std::string &file) {
  return parseNpy(reinterpret_cast<const uint8_t *>(file.data()), file.size(), "x.npy");
}

std::string temporaryPath(const std::string &name) {
  return testing::TempDir() + "tilewright-npy-" + name;
}

//===--- Reading
//--------------------------------------------------------------------------------===//

TEST(Npy, ReadsEveryVersion) {
  for (unsigned char major : {1, 2, 3}) {
    Result<NpyArray> array =
        parse(fileOf(headerOf("<f4", "(2, 3)"), bytesOf<float>({1, 2, 3, 4, 5, 6}), major));
    ASSERT_TRUE(array.ok()) << array.message();
    EXPECT_EQ(array->type, NpyType::F32);
    EXPECT_EQ(array->shape, (Shape{2, 3}));
    EXPECT_EQ(valuesOf<float>(*array), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(Npy, ReadsEveryType) {
  const char *names[] = {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"};
  for (std::string name : names) {
    size_t width = size_t(name[1] - '0');
    std::string data(2 * width, '\0'), reversed = data;
    for (size_t i = 0; i < 2; ++i)
      for (size_t b = 0; b < width; ++b) {
        data[i * width + b] = char(name == "b1" ? i : 16 * i + b + 1);
        reversed[i * width + width - 1 - b] = data[i * width + b];
      }
    Result<NpyArray> little = parse(fileOf(headerOf("<" + name, "(2,)"), data));
    Result<NpyArray> big = parse(fileOf(headerOf(">" + name, "(2,)"), reversed));
    Result<NpyArray> native =
        parse(fileOf(headerOf((width == 1 ? "|" : "=") + name, "(2,)"), data));
    for (const Result<NpyArray> *array : {&little, &big, &native}) {
      ASSERT_TRUE(array->ok()) << array->message();
      EXPECT_EQ(npyTypeName((*array)->type), name);
      EXPECT_EQ(std::string((*array)->bytes.begin(), (*array)->bytes.end()), data);
    }
  }
}

TEST(Npy, ReadsFortranOrder) {
  // Element (i, j, k) is 100 i + 10 j + k; the first index is the fastest in the file.
  std::vector<int16_t> data, expected;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i)
        data.push_back(int16_t(100 * i + 10 * j + k));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k)
        expected.push_back(int16_t(100 * i + 10 * j + k));
  Result<NpyArray> array =
      parse(fileOf(headerOf("<i2", "(2, 3, 4)", /*isFortran=*/true), bytesOf(data)));
  ASSERT_TRUE(array.ok()) << array.message();
  EXPECT_EQ(valuesOf<int16_t>(*array), expected);
}

TEST(Npy, ReadsHeadersAsPythonWritesThem) {
  const char *headers[] = {
      "{\"shape\": (2,), \"descr\": \"<f4\", \"fortran_order\": False}",
      "{'descr':'<f4','fortran_order':False,'shape':(2,)}",
      " { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2 , ) , } \n",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }",
      "{'descr': 'f4', 'fortran_order': True, 'shape': (1, 2), }",
  };
  for (const char *header : headers) {
    Result<NpyArray> array = parse(fileOf(header, bytesOf<float>({7, 8})));
    ASSERT_TRUE(array.ok()) << array.message();
    EXPECT_EQ(valuesOf<float>(*array), (std::vector<float>{7, 8}));
  }
}

TEST(Npy, ReadsScalarsAndEmptyArrays) {
  Result<NpyArray> scalar = parse(fileOf(headerOf("<f8", "()"), bytesOf<double>({0.5})));
  ASSERT_TRUE(scalar.ok()) << scalar.message();
  EXPECT_EQ(scalar->numElements(), 1);
  Result<NpyArray> empty = parse(fileOf(headerOf("<f8", "(3, 0, 5)", true), ""));
  ASSERT_TRUE(empty.ok()) << empty.message();
  EXPECT_EQ(empty->numElements(), 0);
  EXPECT_EQ(empty->shape, (Shape{3, 0, 5}));
}

TEST(Npy, BooleansBecomeZeroAndOne) {
  Result<NpyArray> array = parse(fileOf(headerOf("|b1", "(3,)"), std::string("\x00\x01\x05", 3)));
  ASSERT_TRUE(array.ok());
  EXPECT_EQ(array->bytes, (std::vector<uint8_t>{0, 1, 1}));
}

//===--- Rejections
//-------------------------------------------------------------------------------===//

struct Rejection {
  std::string file, message;
};

TEST(Npy, RejectsWithAPreciseMessage) {
  std::string good = fileOf(headerOf("<f4", "(2, 3)"), std::string(24, '\0'));
  auto withHeader = [](const std::string &header) { return fileOf(header, std::string(24, '\0')); };
  auto withShape = [](const std::string &shape) {
    return fileOf(headerOf("<f4", shape), std::string(24, '\0'));
  };
  std::string hugeHeader = fileOf("", "", 2);
  hugeHeader.replace(8, 4, "\xff\xff\xff\xff");
  const Rejection rejections[] = {
      {"", "not an .npy file: it does not begin with \\x93NUMPY; write it by numpy.save"},
      {"PK\x03\x04 a zip file",
       "not an .npy file: it does not begin with \\x93NUMPY; write it by numpy.save"},
      {good.substr(0, 7), "the file ends before its version; write it again"},
      {fileOf("{}", "", 4), "the .npy version must be 1.0, 2.0 or 3.0, but got 4.0"},
      {std::string("\x93NUMPY\x01\x01", 8),
       "the .npy version must be 1.0, 2.0 or 3.0, but got 1.1"},
      {good.substr(0, 9), "the file ends before the length of its header; write it again"},
      {good.substr(0, 30), "the header is truncated: expected 62 bytes but got 20"},
      {hugeHeader, "the header must be at most 1048576 bytes long, but got 4294967295"},
      {withHeader("[1, 2]"), "the header must be a dictionary such as {'descr': '<f4', "
                             "'fortran_order': False, 'shape': (3, 4)}, but got '[1, 2]'"},
      {withHeader("{}"), "the header must have the key 'descr', but has none of this name"},
      {withHeader("{'descr': '<f4', 'shape': (6,)}"),
       "the header must have the key 'fortran_order', but has none of this name"},
      {withHeader("{'descr': '<f4', 'fortran_order': False}"),
       "the header must have the key 'shape', but has none of this name"},
      {withHeader("{'descr': '<f4', 'color': 1}"),
       "the header's keys are 'descr', 'fortran_order' and 'shape', but got 'color'"},
      {withHeader("{'descr': '<f4', 'descr': '<f4'}"),
       "the keys of the header must differ, but got 'descr' twice"},
      {withHeader("{descr: 1}"), "a key of the header must be a string, but got 'descr: 1}'"},
      {withHeader("{'descr' '<f4'}"), "expected ':' after the key 'descr', but got ''<f4'}'"},
      {withHeader("{'descr': '<f4' 'shape': (6,)}"),
       "expected ',' or '}' in the header, but got ''shape': (6,)}'"},
      {withHeader(headerOf("<f4", "(6,)") + "x"),
       "no text may follow the header's dictionary, but got 'x'"},
      {withHeader("{'descr': 4}"), "'descr' must be a string such as '<f4', but got '4}'"},
      {withHeader("{'descr': [('a', '<f4')]}"),
       "structured types are not supported; save each field as a separate array"},
      {withHeader("{'descr': '<c8'}"),
       "the dtype must be one of f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8 and b1, but got '<c8'"},
      {withHeader("{'descr': '|O'}"),
       "the dtype must be one of f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8 and b1, but got '|O'"},
      {withHeader("{'fortran_order': 1}"), "'fortran_order' must be True or False, but got '1}'"},
      {withShape("6"), "'shape' must be a tuple of integers, but got '6, }'"},
      {withShape("(2.5,)"), "'shape' must be a tuple of integers, but got '(2.5,), }'"},
      {withShape("(2, x)"), "'shape' must be a tuple of integers, but got '(2, x), }'"},
      {withShape("(2, -3)"), "the sizes in 'shape' must not be negative, but got -3"},
      {withShape("(99999999999999999999,)"),
       "the sizes in 'shape' must be in 64 bits, but got '(99999999999999999999,), }'"},
      {withShape("(4294967296, 4294967296)"),
       "the data must have at most 2^63 - 1 bytes, but got shape (4294967296, 4294967296) of f4"},
      {withShape("(0, 9223372036854775807)"),
       "the data must have at most 2^63 - 1 bytes, but got shape (0, 9223372036854775807) of f4"},
      {withShape("(2, 4)"), "the data are truncated: shape (2, 4) of f4 needs 32 bytes but got 24"},
      {withShape("(1152921504606846976,)"), "the data are truncated: shape (1152921504606846976,) "
                                            "of f4 needs 4611686018427387904 bytes but got 24"},
      {withShape("(2, 2)"),
       "the file must end after the 16 bytes of the data, but got more after shape (2, 2) of f4"},
  };
  for (const Rejection &rejection : rejections) {
    Result<NpyArray> array = parse(rejection.file);
    ASSERT_FALSE(array.ok()) << rejection.message;
    EXPECT_EQ(array.message(), "x.npy: " + rejection.message);
  }
  std::string manyDims = "(";
  for (int i = 0; i < 65; ++i)
    manyDims += "1, ";
  EXPECT_EQ(parse(withShape(manyDims + ")")).message(),
            "x.npy: 'shape' must have at most 64 sizes, but got '(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
            "1, 1, ...'");
}

TEST(Npy, EveryPrefixAndEveryChangedByteIsHandled) {
  std::string good = fileOf(headerOf(">i4", "(2, 3)", true), std::string(24, '\1'));
  ASSERT_TRUE(parse(good).ok());
  for (size_t length = 0; length < good.size(); ++length)
    ASSERT_FALSE(parse(good.substr(0, length)).ok());
  // No change may cause a crash; an accepted file is consistent.
  for (size_t at = 0; at < good.size(); ++at)
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = good;
      changed[at] = char(byte);
      Result<NpyArray> array = parse(changed);
      if (array.ok()) {
        ASSERT_EQ(array->bytes.size(), size_t(array->numElements()) * byteWidth(array->type));
      }
    }
}

TEST(Npy, RejectsFilesThatCannotBeRead) {
  EXPECT_EQ(readNpy("/nonexistent/x.npy").message(),
            "/nonexistent/x.npy: cannot be opened: No such file or directory");
  const std::string remedy = "; write the array to a file first";
  EXPECT_EQ(readNpy("/").message(), "/: must be a regular file, but got a directory" + remedy);
  EXPECT_EQ(readNpy("/dev/zero").message(),
            "/dev/zero: must be a regular file, but got a device" + remedy);
  // A FIFO without a writer, at which an ordinary open would wait for ever.
  const std::string fifo = temporaryPath("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(readNpy(fifo).message(), fifo + ": must be a regular file, but got a FIFO" + remedy);
  EXPECT_EQ(inspectNpy(fifo).message(), fifo + ": must be a regular file, but got a FIFO" + remedy);
  std::remove(fifo.c_str());
  NpyArray array;
  array.shape = {1};
  array.bytes.resize(4);
  EXPECT_EQ(writeNpy("/nonexistent/x.npy", array).message(),
            "/nonexistent/x.npy: cannot be opened for writing: No such file or directory");
  EXPECT_EQ(writeNpy("/dev/full", array).message(),
            "/dev/full: cannot be written: No space left on device");
  array.shape = {2};
  EXPECT_EQ(writeNpy("x.npy", array).message(),
            "x.npy: the array must have the bytes of its shape (2,), but got 4");
}

//===--- Writing
//--------------------------------------------------------------------------------===//

TEST(Npy, WritesTheBytesThatNumPyWrites) {
  NpyArray array;
  array.shape = {2, 3};
  array.bytes.assign(24, 1);
  std::string path = temporaryPath("bytes.npy");
  ASSERT_TRUE(writeNpy(path, array).ok());
  std::FILE *file = std::fopen(path.c_str(), "rb");
  ASSERT_NE(file, nullptr);
  char buffer[256];
  size_t size = std::fread(buffer, 1, sizeof(buffer), file);
  std::fclose(file);
  std::remove(path.c_str());
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  header += std::string(128 - 10 - 1 - header.size(), ' ') + "\n";
  EXPECT_EQ(std::string(buffer, size), fileOf(header, std::string(24, '\1')));
}

TEST(Npy, RoundTripsThroughAFile) {
  std::string path = temporaryPath("roundtrip.npy");
  for (unsigned t = 0; t <= unsigned(NpyType::Bool); ++t)
    for (Shape shape : {Shape{}, Shape{5}, Shape{2, 0}, Shape{3, 1, 4}}) {
      NpyArray array;
      array.type = NpyType(t);
      array.shape = shape;
      for (size_t i = 0; i < size_t(array.numElements()) * byteWidth(array.type); ++i)
        array.bytes.push_back(array.type == NpyType::Bool ? i % 2 : i);
      ASSERT_TRUE(writeNpy(path, array).ok());
      Result<NpyArray> back = readNpy(path);
      ASSERT_TRUE(back.ok()) << back.message();
      EXPECT_EQ(back->type, array.type);
      EXPECT_EQ(back->shape, array.shape);
      EXPECT_EQ(back->bytes, array.bytes);
    }
  std::remove(path.c_str());
}

//===--- Conversion
//-----------------------------------------------------------------------------===//

template <typename T> NpyArray arrayOf(NpyType type, const std::vector<T> &values) {
  NpyArray array;
  array.type = type;
  array.shape = {int64_t(values.size())};
  std::string bytes = bytesOf(values);
  array.bytes.assign(bytes.begin(), bytes.end());
  return array;
}

/// The values after conversion to the element type, widened to double.
std::vector<double> converted(const NpyArray &array, ElementType type) {
  std::vector<uint8_t> elements(size_t(array.numElements()) * byteWidth(type));
  Status status = convertFromNpy(array, type, elements.data());
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<double> values(size_t(array.numElements()));
  numeric::convertFromMemory(type, elements.data(), 1, Storage::F64, values.data(), values.size());
  return values;
}

TEST(NpyConvert, FloatsRoundToNearestEvenOnce) {
  using Values = std::vector<double>;
  NpyArray wide = arrayOf<double>(NpyType::F64, {1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-50, 1e300, -0.0});
  EXPECT_EQ(converted(wide, ElementType::F16), (Values{1, 1 + 0x1p-10, INFINITY, -0.0}));
  EXPECT_EQ(converted(wide, ElementType::F64),
            (Values{1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-50, 1e300, -0.0}));
  NpyArray narrow = arrayOf<float>(NpyType::F32, {257, 259, 0.1f, 448});
  EXPECT_EQ(converted(narrow, ElementType::BF16), (Values{256, 260, 0.10009765625, 448}));
  EXPECT_EQ(converted(narrow, ElementType::E4M3), (Values{256, 256, 0.1015625, 448}));
  NpyArray half = arrayOf<uint16_t>(NpyType::F16, {0x3c00, 0x0001, 0xfc00});
  EXPECT_EQ(converted(half, ElementType::F32), (Values{1, 0x1p-24, -INFINITY}));
}

TEST(NpyConvert, IntegersRoundOnceToo) {
  using Values = std::vector<double>;
  // Just above the midpoint between two bf16, by less than the precision of double.
  int64_t aboveMiddle = (int64_t(1) << 60) + (int64_t(1) << 52) + 1;
  NpyArray wide = arrayOf<int64_t>(NpyType::I64, {aboveMiddle, -aboveMiddle, INT64_MIN, 0});
  EXPECT_EQ(converted(wide, ElementType::BF16),
            (Values{0x1p60 + 0x1p53, -0x1p60 - 0x1p53, -0x1p63, 0}));
  EXPECT_EQ(converted(wide, ElementType::F64),
            (Values{0x1p60 + 0x1p52, -0x1p60 - 0x1p52, -0x1p63, 0}));
  int64_t aboveFloatMiddle = (int64_t(1) << 62) + (int64_t(1) << 38) + 1;
  EXPECT_EQ(converted(arrayOf<int64_t>(NpyType::I64, {aboveFloatMiddle}), ElementType::F32),
            (Values{0x1p62 + 0x1p39}));
  EXPECT_EQ(converted(arrayOf<uint64_t>(NpyType::U64, {UINT64_MAX}), ElementType::F32),
            (Values{0x1p64}));
  EXPECT_EQ(converted(arrayOf<uint8_t>(NpyType::Bool, {0, 1}), ElementType::F16), (Values{0, 1}));
  EXPECT_EQ(converted(arrayOf<int8_t>(NpyType::I8, {-128, 127}), ElementType::F32),
            (Values{-128, 127}));
}

template <typename T> std::vector<T> toIntegers(const NpyArray &array, ElementType type) {
  std::vector<T> values(size_t(array.numElements()));
  Status status = convertFromNpy(array, type, values.data());
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

TEST(NpyConvert, IntegersKeepTheirValue) {
  EXPECT_EQ(
      toIntegers<int32_t>(arrayOf<int64_t>(NpyType::I64, {INT32_MIN, INT32_MAX}), ElementType::I32),
      (std::vector<int32_t>{INT32_MIN, INT32_MAX}));
  EXPECT_EQ(toIntegers<int64_t>(arrayOf<int8_t>(NpyType::I8, {-1, 5}), ElementType::I64),
            (std::vector<int64_t>{-1, 5}));
  EXPECT_EQ(toIntegers<int32_t>(arrayOf<uint16_t>(NpyType::U16, {65535}), ElementType::I32),
            (std::vector<int32_t>{65535}));
  EXPECT_EQ(toIntegers<uint8_t>(arrayOf<int32_t>(NpyType::I32, {0, 1}), ElementType::I1),
            (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(toIntegers<int32_t>(arrayOf<uint8_t>(NpyType::Bool, {0, 1}), ElementType::I32),
            (std::vector<int32_t>{0, 1}));
}

TEST(NpyConvert, RejectsWhatHasNoValueInTheType) {
  int64_t out[2];
  auto message = [&](const NpyArray &array, ElementType type) {
    return convertFromNpy(array, type, out).message();
  };
  EXPECT_EQ(message(arrayOf<float>(NpyType::F32, {1}), ElementType::I32),
            "floats cannot be converted to i32, but got f4; save the array with an integer dtype");
  EXPECT_EQ(message(arrayOf<int64_t>(NpyType::I64, {0, int64_t(1) << 31}), ElementType::I32),
            "element 1 must be in the range of i32, but got 2147483648");
  EXPECT_EQ(message(arrayOf<int64_t>(NpyType::I64, {INT64_MIN}), ElementType::I32),
            "element 0 must be in the range of i32, but got -9223372036854775808");
  EXPECT_EQ(message(arrayOf<uint64_t>(NpyType::U64, {UINT64_MAX}), ElementType::I64),
            "element 0 must be in the range of i64, but got 18446744073709551615");
  EXPECT_EQ(message(arrayOf<int8_t>(NpyType::I8, {-1}), ElementType::I1),
            "element 0 must be in the range of i1, but got -1");
  EXPECT_EQ(message(arrayOf<int8_t>(NpyType::I8, {2}), ElementType::I1),
            "element 0 must be in the range of i1, but got 2");
  NpyArray broken = arrayOf<float>(NpyType::F32, {1});
  broken.shape = {2};
  EXPECT_EQ(message(broken, ElementType::F32),
            "the array must have the 8 bytes of its shape, but got 4");
}

TEST(NpyConvert, WritesTheTypesThatFilesHave) {
  uint16_t bf16[] = {numeric::floatToBF16(1.5f), numeric::floatToBF16(-3)};
  Result<NpyArray> array = convertToNpy(ElementType::BF16, bf16, {2, 1});
  ASSERT_TRUE(array.ok());
  EXPECT_EQ(array->type, NpyType::F32);
  EXPECT_EQ(array->shape, (Shape{2, 1}));
  EXPECT_EQ(valuesOf<float>(*array), (std::vector<float>{1.5f, -3}));

  uint8_t fp8[] = {numeric::floatToE5M2(0.25f), 0};
  EXPECT_EQ(valuesOf<float>(*convertToNpy(ElementType::E5M2, fp8, {2})),
            (std::vector<float>{0.25f, 0}));
  uint16_t f16[] = {0x3c00, 0x7c00};
  Result<NpyArray> half = convertToNpy(ElementType::F16, f16, {2});
  EXPECT_EQ(half->type, NpyType::F16);
  EXPECT_EQ(valuesOf<uint16_t>(*half), (std::vector<uint16_t>{0x3c00, 0x7c00}));
  uint8_t bits[] = {0, 1};
  EXPECT_EQ(convertToNpy(ElementType::I1, bits, {2})->type, NpyType::Bool);
  int64_t wide[] = {-1};
  EXPECT_EQ(valuesOf<int64_t>(*convertToNpy(ElementType::I64, wide, {})),
            (std::vector<int64_t>{-1}));
  EXPECT_EQ(convertToNpy(ElementType::I32, wide, {-1}).message(),
            "the sizes of a shape must be positive or 0, with a product in 64 bits, but got (-1,)");
  EXPECT_EQ(convertToNpy(ElementType::I32, wide, {INT64_MAX, 2}).message(),
            "the sizes of a shape must be positive or 0, with a product in 64 bits, but got "
            "(9223372036854775807, 2)");
}

} // namespace
