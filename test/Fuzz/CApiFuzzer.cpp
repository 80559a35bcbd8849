// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer target: calls of the C interface in any order, with structs of any content, on a driver
// whose functions sometimes fail. Only what a callee cannot check is valid: a pointer that is not
// null points to memory of the size that its struct states, and handles are live.

#include "RuntimeFuzzing.h"

#include "runtime/CApiTesting.h"
#include "runtime/tilewright.h"
#include "test/Unit/RuntimeAttentionBundle.h"
#include "test/Unit/RuntimeQuietDriver.h"

#include <deque>
#include <tuple>

using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

const std::string &bundleFile(size_t index) {
  static const std::string files[] = {*scaleBundle().bytes(), *quietAttention().bytes(),
                                      *backwardBundle().bytes(), *featureBundle().bytes()};
  return files[index];
}

/// Owns the memory that structs point to during a call.
class Structs {
public:
  explicit Structs(FuzzedDataProvider &data) : data(data) {}

  template <typename Struct> size_t sizeOf() {
    static constexpr size_t wrong[] = {0, 1, sizeof(Struct) - 1, sizeof(Struct) / 2};
    return rarely() ? data.PickValueInArray(wrong) : sizeof(Struct);
  }

  const tilewright_view *view(int64_t last = 64) {
    if (rarely())
      return nullptr;
    static constexpr int64_t numbers[] = {0, 1, 2, 4, 8, 64, 128, -1, INT64_MAX, INT64_MIN};
    int64_t *numbersHere = ints.emplace_back().data();
    unsigned rank =
        rarely() ? data.ConsumeIntegral<uint32_t>() : data.ConsumeIntegralInRange(1u, 4u);
    for (unsigned i = 0; i < 8; ++i) {
      numbersHere[i] = rarely() ? data.PickValueInArray(numbers) : i + 1 == rank ? last : 2;
      numbersHere[8 + i] = rarely() ? data.PickValueInArray(numbers) : last;
    }
    tilewright_view &made = views.emplace_back();
    made.struct_size = sizeOf<tilewright_view>();
    made.data = rarely() ? nullptr : reinterpret_cast<void *>(uintptr_t(0x10000));
    put(made.type, rarely() ? data.ConsumeIntegral<int>() : int(TILEWRIGHT_BF16));
    made.rank = rank;
    made.extents = rarely() ? nullptr : numbersHere;
    made.strides = data.ConsumeBool() ? nullptr : numbersHere + 8;
    return &made;
  }

  /// A list of arguments with the stride that the first of them states.
  std::tuple<const tilewright_argument *, size_t> arguments() {
    size_t count = data.ConsumeIntegralInRange<size_t>(0, 6);
    if (rarely())
      return {nullptr, count};
    static constexpr size_t steps[] = {sizeof(tilewright_argument),
                                       sizeof(tilewright_argument) + 16,
                                       sizeof(tilewright_argument) + 4, size_t(1) << 40, SIZE_MAX};
    size_t step = rarely() ? data.PickValueInArray(steps) : steps[0];
    size_t room = step <= 256 ? step : sizeof(tilewright_argument);
    auto &bytes = lists.emplace_back(count * room / 8 + 8);
    for (size_t i = 0; i < count; ++i) {
      static const char *const names[] = {"x",       "y",           "scale", "q",      "k",
                                          "k_pages", "v_pages",     "slots", "slopes", "d_slopes",
                                          "cos",     "window_left", "none",  ""};
      tilewright_argument made = {};
      made.struct_size = i == 0 || !rarely() ? step : sizeOf<tilewright_argument>();
      made.name = data.ConsumeBool() ? nullptr : data.PickValueInArray(names);
      if (data.ConsumeBool())
        made.view = view();
      if (!made.view || rarely())
        made.scalar = &scalar;
      put(made.scalar_type, rarely() ? data.ConsumeIntegral<int>() : int(TILEWRIGHT_F32));
      std::memcpy(reinterpret_cast<char *>(bytes.data()) + i * room, &made, sizeof(made));
    }
    return {reinterpret_cast<const tilewright_argument *>(bytes.data()), count};
  }

  template <typename Desc> const Desc *description(int64_t dim) {
    if (rarely())
      return nullptr;
    static Desc made;
    made = {};
    made.struct_size = sizeOf<Desc>();
    put(made.type, rarely() ? data.ConsumeIntegral<int>() : int(TILEWRIGHT_BF16));
    put(made.causal, rarely() ? data.ConsumeIntegral<int>() : 0);
    made.head_dim = rarely() ? data.ConsumeIntegral<int64_t>() : dim;
    made.value_dim = rarely() ? data.ConsumeIntegral<int64_t>() : 0;
    made.has_window = rarely();
    made.entry = rarely() ? "scale" : nullptr;
    return &made;
  }

  /// Of any kind; a call may change it.
  tilewright_attention_desc *attention() {
    if (rarely())
      return nullptr;
    static tilewright_attention_desc made;
    static const tilewright_param more[] = {{"BLOCK_M", "64"}, {"D", "8"}, {nullptr, nullptr}};
    made = {};
    made.struct_size = sizeOf<tilewright_attention_desc>();
    auto number = [&](int usual) { return rarely() ? data.ConsumeIntegral<int>() : usual; };
    put(made.kind, number(data.ConsumeIntegralInRange(0, 4)));
    put(made.type, number(TILEWRIGHT_BF16));
    put(made.causal, number(0));
    put(made.places, number(0));
    put(made.rotary_type, number(0));
    made.head_dim = rarely() ? data.ConsumeIntegral<int64_t>() : 64;
    made.value_dim = rarely() ? data.ConsumeIntegral<int64_t>() : 0;
    made.entry = rarely() ? "scale" : nullptr;
    made.params = data.ConsumeBool() ? nullptr : more;
    made.num_params = rarely() ? data.ConsumeIntegralInRange(0, 3) : 0;
    for (int *flag :
         {&made.has_window, &made.packed, &made.cached, &made.deterministic, &made.ordered,
          &made.score_gradient, &made.capture_gradients, &made.wide_indices, &made.positions,
          &made.rotary_pairs, &made.rotary_first, &made.leftpad})
      *flag = rarely() ? data.ConsumeIntegralInRange(-1, 2) : 0;
    for (int64_t *size : {&made.list_block_m, &made.list_block_n, &made.page_rows, &made.group,
                          &made.max_rows, &made.rotary})
      *size = rarely() ? data.ConsumeIntegral<int64_t>() : 0;
    made.num_splits = number(0);
    return &made;
  }

  template <typename Args> Args common(int64_t dim) {
    Args made = {};
    made.struct_size = sizeOf<Args>();
    made.q = view(dim);
    made.k = rarely() ? view(dim) : made.q;
    made.v = rarely() ? view(dim) : made.q;
    made.o = rarely() ? view(dim) : made.q;
    made.lse = data.ConsumeBool() ? view(2) : nullptr;
    made.scale = 1;
    made.window_left = made.window_right = rarely() ? data.ConsumeIntegral<int32_t>() : -1;
    std::tie(made.captures, made.num_captures) = arguments();
    return made;
  }

  bool rarely() { return data.ConsumeIntegralInRange(0, 15) == 1; }

private:
  /// An invalid enumerator, as a C caller may pass.
  template <typename Enum> static void put(Enum &to, int value) {
    std::memcpy(&to, &value, sizeof(to));
  }

  FuzzedDataProvider &data;
  double scalar = 1;
  std::deque<std::array<int64_t, 16>> ints;
  std::deque<tilewright_view> views;
  std::deque<std::vector<uint64_t>> lists;
};

/// A failure has a code and a message.
void see(tilewright_code code) {
  require(code >= TILEWRIGHT_OK && code <= TILEWRIGHT_IO);
  require(code == TILEWRIGHT_OK || *tilewright_last_error() != '\0');
}

class Session {
public:
  explicit Session(FuzzedDataProvider &data) : data(data) {}
  ~Session() {
    tilewright_operation_destroy(operation);
    tilewright_attention_forward_destroy(forward);
    tilewright_attention_backward_destroy(backward);
    tilewright_attention_destroy(attention);
    tilewright_bundle_close(bundle);
  }

  void step() {
    Structs structs(data);
    int device = data.ConsumeIntegralInRange(-1, 70);
    uint64_t bytes = 0, *bytesAt = structs.rarely() ? nullptr : &bytes;
    void *workspace = reinterpret_cast<void *>(uintptr_t(structs.rarely() ? 1 : 0x100000));
    auto size = data.PickValueInArray<uint64_t>({0, 4096, uint64_t(1) << 40});
    auto *stream =
        reinterpret_cast<void *>(uintptr_t(data.PickValueInArray({0, 1, 2, 0x5000, 0x5001})));
    switch (data.ConsumeIntegralInRange(0, 19)) {
    case 0:
      return load(structs);
    case 1:
      return create(structs);
    case 2: {
      auto [list, count] = structs.arguments();
      return see(tilewright_operation_run(operation, list, count, workspace, size, stream));
    }
    case 3: {
      auto [list, count] = structs.arguments();
      return see(tilewright_operation_workspace_size(operation, list, count, device, bytesAt));
    }
    case 4:
      see(tilewright_operation_check_support(operation, device, 0, device));
      see(tilewright_attention_forward_check_support(forward, 9, 0, device));
      return see(tilewright_attention_backward_check_support(backward, 8, device, 0));
    case 5:
      return see(tilewright_operation_prepare(operation, device % 4));
    case 6:
      return see(tilewright_attention_forward_prepare(forward, device % 4));
    case 7:
      return see(tilewright_attention_backward_prepare(backward, device % 4));
    case 8: {
      auto args = structs.common<tilewright_attention_forward_args>(128);
      return see(tilewright_attention_forward_run(forward, structs.rarely() ? nullptr : &args,
                                                  workspace, size, stream));
    }
    case 9: {
      auto args = structs.common<tilewright_attention_forward_args>(128);
      return see(tilewright_attention_forward_workspace_size(forward, &args, device, bytesAt));
    }
    case 10:
    case 11: {
      auto args = structs.common<tilewright_attention_backward_args>(64);
      args.d_o = args.d_q = args.q;
      args.d_k = structs.rarely() ? nullptr : args.k;
      args.d_v = args.v;
      args.d_lse = structs.rarely() ? args.q : nullptr;
      see(tilewright_attention_backward_workspace_size(backward, &args, device, bytesAt));
      return see(tilewright_attention_backward_run(backward, &args, workspace, size, stream));
    }
    case 12:
      see(tilewright_operation_check_indices(operation, device));
      see(tilewright_operation_overlap_previous(operation, device));
      see(tilewright_attention_forward_overlap_previous(forward, device));
      see(tilewright_attention_backward_overlap_previous(backward, device));
      see(tilewright_attention_forward_check_indices(forward, device));
      return see(tilewright_attention_backward_check_indices(backward, device));
    case 13:
      return name(data.ConsumeIntegral<size_t>());
    case 14: {
      alignas(8) char buffer[64] = {};
      return see(tilewright_timeline_write(
          bundle, structs.rarely() ? nullptr : buffer + (device & 7), 32, "/nowhere/trace.json"));
    }
    case 15: {
      tilewright_attention_destroy(attention);
      attention = nullptr;
      const char *text = nullptr;
      tilewright_attention_desc *desc = structs.attention();
      see(tilewright_attention_signature(desc, structs.rarely() ? nullptr : &text));
      see(tilewright_attention_params(desc, &text));
      tilewright_code code =
          tilewright_attention_create(bundle, desc, structs.rarely() ? nullptr : &attention);
      see(code);
      require((code == TILEWRIGHT_OK) == (attention != nullptr));
      return see(tilewright_attention_prepare(attention, device % 4));
    }
    case 16: {
      auto [list, count] = structs.arguments();
      see(tilewright_attention_describe(structs.attention(), list, count));
      see(tilewright_attention_check_support(attention, 9, 0, device));
      see(tilewright_attention_overlap_previous(attention, device));
      return see(tilewright_attention_check_indices(attention, device));
    }
    case 17: {
      auto [list, count] = structs.arguments();
      see(tilewright_attention_workspace_size(attention, list, count, device, bytesAt));
      return see(tilewright_attention_run(attention, list, count, workspace, size, stream));
    }
    case 18: {
      auto [list, count] = structs.arguments();
      tilewright_target target = {structs.sizeOf<tilewright_target>(), 8 + (device & 1), 0,
                                  structs.rarely() ? device : 0, device};
      const tilewright_target *of = data.ConsumeBool() ? &target : nullptr;
      tilewright_report *report = nullptr;
      see(data.ConsumeBool()
              ? tilewright_operation_report(operation, list, count, device, of, &report)
              : tilewright_attention_report(attention, list, count, device, of, &report));
      tilewright_run_info run = {};
      run.struct_size = structs.sizeOf<tilewright_run_info>();
      see(tilewright_report_run(report, &run));
      tilewright_launch_info launch = {};
      launch.struct_size = structs.sizeOf<tilewright_launch_info>();
      see(tilewright_report_launch(report, size_t(device & 3), &launch));
      return tilewright_report_destroy(report);
    }
    default:
      tilewright_operation_destroy(operation);
      operation = nullptr;
      tilewright_bundle_close(bundle); // objects created from it remain valid
      bundle = nullptr;
    }
  }

private:
  void load(Structs &structs) {
    tilewright_bundle_close(bundle);
    bundle = nullptr;
    std::string file = bundleFile(data.ConsumeIntegralInRange<size_t>(0, 3));
    if (structs.rarely())
      file[data.ConsumeIntegralInRange<size_t>(0, file.size() - 1)] ^= 1;
    size_t size =
        structs.rarely() ? data.ConsumeIntegralInRange<size_t>(0, file.size()) : file.size();
    see(tilewright_bundle_load(structs.rarely() ? nullptr : file.data(), size,
                               structs.rarely() ? nullptr : &bundle));
    if (structs.rarely())
      see(tilewright_bundle_open(data.ConsumeBool() ? "/nowhere" : nullptr, &bundle));
  }

  void create(Structs &structs) {
    static const char *const names[] = {"scale", "attention_forward", "attention_backward", "",
                                        "D"};
    static const char *const values[] = {
        "64", "128", "bf16", "none", "true", "", "99999999999999999999"};
    switch (data.ConsumeIntegralInRange(0, 2)) {
    case 0: {
      tilewright_param params[3] = {};
      size_t count = data.ConsumeIntegralInRange<size_t>(0, 3);
      for (size_t i = 0; i < count; ++i)
        params[i] = {structs.rarely()     ? nullptr
                     : data.ConsumeBool() ? "D"
                                          : "T",
                     structs.rarely() ? nullptr : data.PickValueInArray(values)};
      tilewright_operation_destroy(operation);
      operation = nullptr;
      return see(tilewright_operation_create(
          bundle, structs.rarely() ? nullptr : data.PickValueInArray(names),
          structs.rarely() ? nullptr : params, count, structs.rarely() ? nullptr : &operation));
    }
    case 1:
      tilewright_attention_forward_destroy(forward);
      forward = nullptr;
      return see(tilewright_attention_forward_create(
          bundle, structs.description<tilewright_attention_forward_desc>(128),
          structs.rarely() ? nullptr : &forward));
    default:
      tilewright_attention_backward_destroy(backward);
      backward = nullptr;
      return see(tilewright_attention_backward_create(
          bundle, structs.description<tilewright_attention_backward_desc>(64),
          structs.rarely() ? nullptr : &backward));
    }
  }

  void name(size_t index) {
    size_t count = tilewright_operation_num_arguments(operation);
    require((tilewright_operation_argument_name(operation, index % 8) != nullptr) ==
            (index % 8 < count));
    require(!tilewright_operation_argument_name(operation, count + index % 1000));
    count = tilewright_attention_num_arguments(attention);
    require(!tilewright_attention_argument_name(attention, count + index % 1000));
    count = tilewright_attention_forward_num_captures(forward);
    require(!tilewright_attention_forward_capture_name(forward, count + index % 1000));
    count = tilewright_attention_backward_num_captures(backward);
    require(!tilewright_attention_backward_capture_name(backward, count + index % 1000));
  }

  FuzzedDataProvider &data;
  tilewright_bundle *bundle = nullptr;
  tilewright_operation *operation = nullptr;
  tilewright_attention_forward *forward = nullptr;
  tilewright_attention_backward *backward = nullptr;
  tilewright_attention *attention = nullptr;
};

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  setDriverForTesting(&fuzzTable());
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  resetFake(data);
  {
    Session session(data);
    for (int i = 0; i < 50 && data.remaining_bytes() > 0; ++i)
      session.step();
  }
  fake().contexts.clear(); // a failed pop leaves its context
  requireNothingHeld();
  return 0;
}
