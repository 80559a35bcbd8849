// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes a rule of a manifest and arrays in device memory to base/Numeric/ElementRule.h, which
// evaluates it.

#include "runtime/IndexCheck.h"

#include <cstdlib>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

/// Reads arrays for rules, and keeps the driver's error if it cannot.
class DeviceReader {
public:
  DeviceReader(const DriverTable &driver, cuda::Stream stream, std::string owner)
      : driver(driver), stream(stream), owner(std::move(owner)) {}

  Status failure;

  /// `view` must outlive the array. An absent one has no elements.
  numeric::IndexArray arrayOf(const ArgumentSpec &spec, const Argument &view) {
    std::vector<int64_t> extents = {0};
    if (view.kind == Argument::Kind::View)
      extents.assign(view.extents, view.extents + view.rank);
    auto read = [this, extents, name = spec.name, &view](int64_t first, int64_t count,
                                                         int64_t *to) {
      failure = copy(name, view, extents, first, count, to);
      if (failure.ok() && view.type == ElementType::I32)
        numeric::widenInPlace(to, count);
      return failure.ok();
    };
    return {spec.name, extents, read};
  }

private:
  /// Only the elements are read: the gaps between them need not be memory.
  Status copy(const std::string &name, const Argument &view, const std::vector<int64_t> &extents,
              int64_t first, int64_t count, int64_t *to) const {
    cuda::Result result = cuda::Success;
    auto width = int64_t(byteWidth(view.type));
    auto *bytes = reinterpret_cast<uint8_t *>(to);
    numeric::forEachStretch(
        extents, view.strides, first, count, [&](int64_t offset, int64_t done, int64_t length) {
          result =
              driver.cuMemcpyDtoHAsync(bytes + done * width, view.bits + uint64_t(offset * width),
                                       size_t(length * width), stream);
          return result == cuda::Success;
        });
    const char *call = "cuMemcpyDtoHAsync";
    if (result == cuda::Success) {
      result = driver.cuStreamSynchronize(stream);
      call = "cuStreamSynchronize";
    }
    if (result == cuda::Success)
      return Status::success();
    return driver.check(result, call, "read '" + name + "' to check the indices of " + owner);
  }

  const DriverTable &driver;
  cuda::Stream stream;
  std::string owner;
};

} // namespace

bool tilewright::runtime::checksIndicesByDefault() {
  const char *value = std::getenv("TILEWRIGHT_CHECK_INDICES");
  return value && *value && std::string(value) != "0";
}

Status tilewright::runtime::checkElementRules(const DriverTable &driver,
                                              const std::vector<ElementRuleSpec> &rules,
                                              const std::vector<ArgumentSpec> &contract,
                                              const ExprInputs &inputs, const char *owner,
                                              const std::string &name, cuda::Stream stream) {
  if (rules.empty())
    return Status::success();
  const std::string who = std::string(owner) + " '" + name + "'";
  int capturing = cuda::CaptureNone;
  if (cuda::Result result = driver.cuStreamIsCapturing(stream, &capturing))
    return driver.check(result, "cuStreamIsCapturing", "ask whether the stream is captured");
  if (capturing != cuda::CaptureNone)
    return Status::failure(Code::Unsupported,
                           "the indices of " + who +
                               " cannot be checked while the stream is being captured; check a run "
                               "before the capture, and capture without checking");
  if (!driver.cuMemcpyDtoHAsync || !driver.cuStreamSynchronize)
    return Status::failure(Code::Unsupported, "the indices of " + who +
                                                  " cannot be checked: the driver lacks functions "
                                                  "that copy arrays; update the driver");
  DeviceReader reader(driver, stream, who);
  for (const ElementRuleSpec &rule : rules) {
    const Argument &array = *inputs.arguments[rule.argument];
    numeric::ElementCheck check;
    check.rule = rule.rule;
    check.text = rule.toString(contract);
    check.array = reader.arrayOf(contract[rule.argument], array);
    bool hasElements = true;
    for (int64_t extent : check.array.extents)
      hasElements &= extent > 0;
    if (!hasElements)
      continue;
    check.counts = reader.arrayOf(contract[rule.counts], *inputs.arguments[rule.counts]);
    const std::pair<const Expr *, int64_t *> numbers[] = {
        {&rule.low, &check.low}, {&rule.high, &check.high}, {&rule.size, &check.size}};
    for (auto [expr, number] : numbers)
      if (Status status = ExprCode(*expr, contract).evaluate(inputs, *number); !status)
        return Status::failure(status.code(), who + " has a constraint '" + check.text +
                                                  "' that cannot be computed: " + status.message());
    std::optional<std::string> broken = numeric::findBrokenRule(check);
    if (!reader.failure.ok())
      return reader.failure;
    if (broken)
      return Status::failure(Code::InvalidArgument, who + " " + *broken);
  }
  return Status::success();
}
