// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer target: bundles. A bundle that is accepted is unchanged when it is written and read
// again. Each of its kernels and programs can be created, prepared and run, or gives an error.
//
// Random bytes fail at the checksum. The mutator therefore splits a bundle, changes values of the
// manifest, its text or the code, and reassembles it with correct lengths and checksum.

#include "RuntimeFuzzing.h"

#include "runtime/Checksum.h"
#include "test/Unit/RuntimeBackwardBundle.h"
#include "test/Unit/RuntimeQuietDriver.h"

#include <random>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

struct Parts {
  std::string manifest;
  std::vector<std::string> blobs;
};

uint64_t getNumber(std::string_view in, size_t at, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes && at + i < in.size(); ++i)
    value |= uint64_t(uint8_t(in[at + i])) << (8 * i);
  return value;
}

void putNumber(std::string &out, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i)
    out += char(value >> (8 * i) & 0xff);
}

/// Empty if a damaged file lacks the part.
Parts takeApart(std::string_view file) {
  Parts parts;
  uint64_t numBlobs = std::min<uint64_t>(getNumber(file, 40, 4), 16), at = 48 + 8 * numBlobs;
  auto take = [&](uint64_t bytes) {
    std::string_view part = file.substr(std::min<uint64_t>(at, file.size()), bytes);
    at += part.size();
    return std::string(part);
  };
  parts.manifest = take(getNumber(file, 32, 8));
  for (uint64_t i = 0; i < numBlobs; ++i) {
    at = (at + 15) / 16 * 16;
    parts.blobs.push_back(take(getNumber(file, 48 + 8 * i, 8)));
  }
  return parts;
}

std::string putTogether(const Parts &parts) {
  std::string body;
  putNumber(body, parts.manifest.size(), 8);
  putNumber(body, parts.blobs.size(), 8);
  for (const std::string &blob : parts.blobs)
    putNumber(body, blob.size(), 8);
  body += parts.manifest;
  for (const std::string &blob : parts.blobs) {
    body.resize((32 + body.size() + 15) / 16 * 16 - 32, '\0');
    body += blob;
  }
  std::string file = "TWBUNDLE";
  putNumber(file, bundleVersion, 8);
  putNumber(file, 32 + body.size(), 8);
  putNumber(file, checksum(body.data(), body.size()), 8);
  return file + body;
}

void mutateBytes(std::string &text, size_t room) {
  size_t size = text.size();
  text.resize(size + std::min<size_t>(room, 64) + 1);
  text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(text.data()), size, text.size()));
}

void listValues(Json &json, std::vector<Json *> &values) {
  values.push_back(&json);
  for (Json &item : json.items)
    listValues(item, values);
  for (auto &member : json.members)
    listValues(member.second, values);
}

/// Changes one value of `json`; `other` supplies values.
void mutateValue(Json &json, Json other, std::minstd_rand &random) {
  static constexpr int64_t numbers[] = {
      0, 1, 2, 3, 4, 8, 16, 64, -1, 256, 4096, INT32_MAX, UINT32_MAX, INT64_MAX, INT64_MIN};
  std::vector<Json *> values, others;
  listValues(json, values);
  listValues(other, others);
  Json &value = *values[random() % values.size()];
  const Json taken = *others[random() % others.size()];
  auto kind = Json::Kind(random() % 7);
  switch (random() % 8) {
  case 0:
    value = taken;
    break;
  case 1:
    value.kind = kind;
    break;
  case 2:
    value = Json::integer(numbers[random() % std::size(numbers)]);
    break;
  case 3: // an item or a member more
    value.items.insert(value.items.begin() + long(random() % (value.items.size() + 1)), taken);
    if (value.kind == Json::Kind::Object && !others.empty()) {
      const Json &from = *others[random() % others.size()];
      if (!from.members.empty()) {
        auto member = from.members[random() % from.members.size()];
        if (!value.find(member.first))
          value.members.push_back(member);
      }
    }
    break;
  case 4: // one less
    if (!value.items.empty())
      value.items.erase(value.items.begin() + long(random() % value.items.size()));
    if (!value.members.empty())
      value.members.erase(value.members.begin() + long(random() % value.members.size()));
    break;
  case 5: // deeper, as an expression would be
    value = Json::array({Json::string(random() % 2 ? "ceildiv" : "+"), value, taken});
    break;
  case 6: // a string of elsewhere
    for (Json *from : others)
      if (from->kind == Json::Kind::String && random() % 4 == 0)
        value = Json::string(from->text);
    break;
  default:
    mutateBytes(value.text, 16);
    value.kind = Json::Kind::String;
  }
}

/// A program with one launch whose first variants need more than the last: a tensor map, an
/// alignment.
BundleWriter variantBundle() {
  BundleWriter writer = scaleBundle();
  KernelSpec plain = writer.manifest.kernels[0];
  plain.arguments.push_back(ArgumentSpec::view("index", ElementType::I32, {-1}));
  plain.elements = {{numeric::ElementRule::Within, 5, Expr::integer(0), Expr::dim("x", 0), 0, {}}};
  KernelSpec mapped = plain, aligned = plain;
  mapped.tensorMaps = {{0, {64, 64}, Swizzle::B128, true, 0}};
  mapped.conditions = {*Expr::call("ge", {Expr::dim("x", 0), Expr::integer(16)})};
  aligned.requirements = {{1, 16, true}};
  aligned.cluster = {2, 1, 1};
  writer.manifest.kernels = {mapped, aligned, plain};
  ProgramSpec program;
  program.name = "all";
  program.arguments = plain.arguments;
  formOf(program).workspaces = {
      {"tmp", ElementType::BF16, {Expr::dim("x", 0), Expr::integer(64)}, 0u}};
  LaunchSpec launch;
  launch.kernels = {0, 1, 2};
  launch.arguments = {"x", "tmp", "bias", "scale", "rows", "index"};
  launch.condition = *Expr::call(">", {Expr::name("rows"), Expr::integer(0)});
  formOf(program).launches = {launch};
  program.conditions = {*Expr::call("==", {Expr::dim("x", 0), Expr::dim("y", 0)})};
  writer.manifest.programs = {program};
  return writer;
}

/// Initial bundles, independent of the format version.
const std::string &seedBundle(size_t index) {
  static const std::string files[] = {*scaleBundle().bytes(), *quietAttention().bytes(),
                                      *backwardBundle().bytes(), *variantBundle().bytes()};
  return files[index % std::size(files)];
}

size_t copyOut(const std::string &file, uint8_t *data, size_t maxSize) {
  size_t size = std::min(file.size(), maxSize);
  std::memcpy(data, file.data(), size);
  return size;
}

void runOperation(FuzzedDataProvider &data, Result<Operation> created) {
  if (!created)
    return require(!created.status().message().empty());
  Operation &operation = *created;
  (void)operation.checkSupport({9, 0, 0});
  operation.checkIndices(data.ConsumeBool());
  Status prepared = operation.prepare(data.ConsumeIntegralInRange(0, 3));
  std::vector<Argument> values;
  for (const ArgumentSpec &spec : operation.arguments())
    values.push_back(makeArgument(data, spec));
  std::vector<const Argument *> pointers;
  for (const Argument &value : values)
    pointers.push_back(&value);
  size_t count = pointers.size() - (!pointers.empty() && data.ConsumeIntegralInRange(0, 15) == 0);
  uint64_t bytes = 0;
  Status sized = operation.workspaceSize(pointers.data(), count, 0, bytes);
  Status ran = operation.run(pointers.data(), count, 0x100000, sized.ok() ? bytes : 4096, nullptr);
  if (!prepared.ok())
    require(!ran.ok());
}

void runPlan(FuzzedDataProvider &data, const std::shared_ptr<const Bundle> &bundle) {
  AttentionForwardDesc desc;
  desc.type = ElementType::BF16;
  desc.headDim = data.PickValueInArray({64, 128});
  Result<AttentionForward> plan = AttentionForward::create(fuzzTable(), bundle, desc);
  if (!plan)
    return;
  (void)plan->prepare(0);
  AttentionForwardArguments arguments;
  ArgumentSpec view = ArgumentSpec::view("q", ElementType::BF16, {-1, -1, -1, desc.headDim});
  arguments.q = makeArgument(data, view);
  arguments.k = arguments.v = data.ConsumeBool() ? arguments.q : makeArgument(data, view);
  arguments.o = arguments.q;
  std::vector<Argument> captures(plan->captures().size());
  arguments.captures = captures.data();
  arguments.numCaptures = captures.size();
  (void)plan->run(arguments, 0, 0, nullptr);
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  std::minstd_rand random(seed);
  if (size < 48 && seedBundle(seed).size() <= maxSize)
    return copyOut(seedBundle(seed), data, maxSize);
  if (random() % 16 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  Parts parts = takeApart({reinterpret_cast<const char *>(data), size});
  size_t room = maxSize > size ? maxSize - size : 0;
  unsigned choice = random() % 8;
  if (choice == 0 && !parts.blobs.empty()) {
    mutateBytes(parts.blobs[random() % parts.blobs.size()], room);
  } else if (choice == 1) {
    mutateBytes(parts.manifest, room);
  } else if (Result<Json> json = Json::parse(parts.manifest)) {
    for (unsigned i = 1 + random() % 3; i > 0; --i)
      mutateValue(*json, *json, random);
    for (auto &member : json->members) // keeps a corpus valid if the ABI changes
      if (member.first == "abi" && random() % 16 != 0)
        member.second = Json::integer(kernelAbiVersion);
    parts.manifest = json->write();
  } else {
    mutateBytes(parts.manifest, room);
  }
  std::string file = putTogether(parts);
  return file.size() > maxSize ? LLVMFuzzerMutate(data, size, maxSize)
                               : copyOut(file, data, maxSize);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t sizeA, const uint8_t *b,
                                            size_t sizeB, uint8_t *out, size_t maxSize,
                                            unsigned seed) {
  std::minstd_rand random(seed);
  Parts parts = takeApart({reinterpret_cast<const char *>(a), sizeA});
  Parts others = takeApart({reinterpret_cast<const char *>(b), sizeB});
  Result<Json> json = Json::parse(parts.manifest), other = Json::parse(others.manifest);
  if (!json || !other)
    return 0;
  mutateValue(*json, *other, random);
  parts.manifest = json->write();
  std::string file = putTogether(parts);
  return file.size() > maxSize ? 0 : copyOut(file, out, maxSize);
}

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  std::string file(reinterpret_cast<const char *>(bytes), size);
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(file, "fuzz.twb");
  if (!bundle) {
    require(bundle.status().code() == Code::BadBundle && !bundle.status().message().empty());
    return 0;
  }
  const Manifest &manifest = (*bundle)->manifest();
  // Resolving is idempotent, so that a second write gives the same bytes.
  std::string text = manifest.toJson().write();
  Result<Json> json = Json::parse(text);
  require(json.ok());
  Result<Manifest> again = Manifest::fromJson(*json);
  require(again.ok() && again->toJson().write() == text);

  // Arguments depend on the checksum, so that they change with the bundle.
  FuzzedDataProvider data(bytes + 24, size - 24);
  resetFake(data);
  auto visit = [&](const std::string &name, const Params &params) {
    runOperation(data, Operation::create(fuzzTable(), *bundle, name, params));
    runOperation(data, Operation::create(fuzzTable(), *bundle, name));
  };
  constexpr size_t most = 8;
  for (size_t i = 0; i < std::min(manifest.kernels.size(), most); ++i)
    visit(manifest.kernels[i].name, manifest.kernels[i].params);
  for (size_t i = 0; i < std::min(manifest.programs.size(), most); ++i)
    visit(manifest.programs[i].name, manifest.programs[i].params);
  runPlan(data, *bundle);
  fake().contexts.clear(); // a failed pop leaves its context
  require(fake().loaded == 0);
  return 0;
}
