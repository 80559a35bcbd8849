// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How an application runs attention: it loads a bundle, prepares a plan once, and runs it on a
// stream and in a CUDA graph. It links the runtime alone: no compiler, and nothing of CUDA but the
// driver, which the runtime opens.
//
//   tilewrightc kernels/attention_forward.mlir --param D=64 --param T=f16 --param CAUSAL=top_left
//       --emit=bundle -o attention.twb
//   tilewrightc kernels/attention_backward.mlir --param D=64 --param T=f16 --param CAUSAL=top_left
//       --emit=bundle -o backward.twb
//   gpu_attention attention.twb backward.twb
//
// The second bundle is optional; with it the gradients are computed too.
//
// Exit code: 0 if the results are right, or there is no GPU and it says so; else 1.

#include "runtime/AttentionBackward.h"
#include "runtime/AttentionForward.h"
#include "runtime/Device.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

using namespace tilewright;
using namespace tilewright::runtime;
using numeric::f16ToFloat;
using numeric::floatToF16;

namespace {

constexpr int64_t B = 2, Hq = 4, Hkv = 2, S = 300, D = 64;

[[noreturn]] void fail(const std::string &message) {
  std::fprintf(stderr, "gpu_attention: %s\n", message.c_str());
  std::exit(1);
}

void check(const Status &status) {
  if (!status)
    fail(status.message());
}

template <typename T> T take(Result<T> value) {
  if (!value)
    fail(value.status().message());
  return std::move(*value);
}

/// A call of the driver that is the application's own.
#define CHECK_CALL(driver, call, ...)                                                              \
  check((driver).check((driver).call ? (driver).call(__VA_ARGS__) : cuda::ErrorNotFound, #call,    \
                       "run the example"))

/// An array of f16 or f32 in device memory.
class DeviceArray {
public:
  DeviceArray(const DriverTable &driver, size_t bytes) : driver(driver), bytes(bytes) {
    CHECK_CALL(driver, cuMemAlloc, &address, bytes);
  }
  DeviceArray(const DeviceArray &) = delete;
  DeviceArray &operator=(const DeviceArray &) = delete;
  ~DeviceArray() { (void)driver.cuMemFree(address); }

  void upload(const void *from, cuda::Stream stream) {
    CHECK_CALL(driver, cuMemcpyHtoDAsync, address, from, bytes, stream);
  }
  void download(void *to, cuda::Stream stream) const {
    CHECK_CALL(driver, cuMemcpyDtoHAsync, to, address, bytes, stream);
    CHECK_CALL(driver, cuStreamSynchronize, stream);
  }
  void poison(cuda::Stream stream) {
    CHECK_CALL(driver, cuMemsetD32Async, address, 0xffffffff, bytes / 4, stream);
  }

  cuda::DevicePtr address = 0;

private:
  const DriverTable &driver;
  size_t bytes;
};

std::vector<uint16_t> makeInput(size_t elements, std::mt19937 &generator) {
  std::normal_distribution<float> normal;
  std::vector<uint16_t> values(elements);
  for (uint16_t &value : values)
    value = floatToF16(normal(generator));
  return values;
}

/// softmax(scale Q K^T) V with j <= i, one row after the other in f64.
std::vector<double> attendOnCpu(const std::vector<uint16_t> &q, const std::vector<uint16_t> &k,
                                const std::vector<uint16_t> &v, double scale) {
  std::vector<double> o(q.size());
  std::vector<double> p(S);
  for (int64_t head = 0; head < B * Hq; ++head) {
    int64_t keyHead = head / Hq * Hkv + head % Hq / (Hq / Hkv);
    for (int64_t i = 0; i < S; ++i) {
      double max = -INFINITY, sum = 0;
      for (int64_t j = 0; j <= i; ++j) {
        p[j] = 0;
        for (int64_t d = 0; d < D; ++d)
          p[j] += double(f16ToFloat(q[(head * S + i) * D + d])) *
                  f16ToFloat(k[(keyHead * S + j) * D + d]);
        max = std::max(max, p[j] *= scale);
      }
      for (int64_t j = 0; j <= i; ++j)
        sum += p[j] = std::exp(p[j] - max);
      for (int64_t d = 0; d < D; ++d) {
        double total = 0;
        for (int64_t j = 0; j <= i; ++j)
          total += p[j] * f16ToFloat(v[(keyHead * S + j) * D + d]);
        o[(head * S + i) * D + d] = total / sum;
      }
    }
  }
  return o;
}

/// P and O are rounded to f16, which has 11 significant bits; values are averages of N(0, 1).
bool isRight(const char *what, const std::vector<uint16_t> &got,
             const std::vector<double> &expected) {
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    double error = std::abs(f16ToFloat(got[i]) - expected[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  constexpr double allowed = 4e-3;
  std::printf("%s: greatest error %.1e (%.1e allowed): %s\n", what, worst, allowed,
              worst <= allowed ? "ok" : "WRONG");
  return worst <= allowed;
}

/// Sums of products of two arrays.
double dot(const std::vector<uint16_t> &a, const std::vector<uint16_t> &b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i)
    total += double(f16ToFloat(a[i])) * f16ToFloat(b[i]);
  return total;
}

/// Two identities that hold for any gradients of attention. Each row of P sums to 1, so that the
/// rows of dV sum to those of dO; and scores are bilinear, so that q . dq = k . dk.
bool areGradients(const std::vector<uint16_t> &q, const std::vector<uint16_t> &k,
                  const std::vector<uint16_t> &dO, const std::vector<uint16_t> &dq,
                  const std::vector<uint16_t> &dk, const std::vector<uint16_t> &dv) {
  std::vector<double> sums(D);
  for (size_t i = 0; i < dv.size(); ++i)
    sums[i % D] += f16ToFloat(dv[i]);
  for (size_t i = 0; i < dO.size(); ++i)
    sums[i % D] -= f16ToFloat(dO[i]);
  double rows = 0;
  for (double sum : sums)
    rows = std::isnan(sum) ? INFINITY : std::max(rows, std::abs(sum));
  double ofQ = dot(q, dq), ofK = dot(k, dk);
  bool ok = rows < 0.1 && std::abs(ofQ - ofK) < 0.25; // P, dS and results are rounded to f16
  std::printf(
      "backward: columns of dV and of dO differ by %.1e, q . dq = %.2f, k . dk = %.2f: %s\n", rows,
      ofQ, ofK, ok ? "ok" : "WRONG");
  return ok;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2 && argc != 3)
    fail("expected the name of a bundle, and perhaps of one for the backward");

  // Nothing of this needs a GPU: what the bundle lacks is known here, with the command that makes
  // it.
  std::shared_ptr<const Bundle> bundle = take(Bundle::open(argv[1]));
  std::shared_ptr<const Bundle> backwardBundle = argc == 3 ? take(Bundle::open(argv[2])) : nullptr;
  Result<const DriverTable *> found = DriverTable::system();
  Result<DeviceInfo> device = found ? queryDevice(**found, 0) : Result<DeviceInfo>(found.status());
  if (!device) {
    std::printf("gpu_attention: SKIPPED, there is no GPU: %s\n", device.status().message().c_str());
    return 0;
  }
  const DriverTable &driver = **found;
  AttentionForwardDesc desc;
  desc.type = ElementType::F16;
  desc.headDim = D;
  desc.causal = AttentionForwardDesc::Causal::TopLeft;
  AttentionForward plan = take(AttentionForward::create(driver, bundle, desc));
  std::printf("%s\n", device->toString().c_str());

  // A context for the application's own memory; the plan would manage without.
  PrimaryContext context = take(PrimaryContext::retain(driver, *device));
  CHECK_CALL(driver, cuCtxPushCurrent, context.get());
  check(plan.prepare(0));
  cuda::Stream stream = nullptr;
  constexpr unsigned nonBlocking = 1;
  CHECK_CALL(driver, cuStreamCreate, &stream, nonBlocking);

  std::mt19937 generator(1);
  std::vector<uint16_t> q = makeInput(B * Hq * S * D, generator);
  std::vector<uint16_t> k = makeInput(B * Hkv * S * D, generator);
  std::vector<uint16_t> v = makeInput(B * Hkv * S * D, generator);
  std::vector<uint16_t> o(q.size());
  bool ok = true;
  {
    DeviceArray qd(driver, 2 * q.size()), kd(driver, 2 * k.size()), vd(driver, 2 * v.size());
    DeviceArray od(driver, 2 * o.size()), lsed(driver, 4 * B * Hq * S);
    qd.upload(q.data(), stream);
    kd.upload(k.data(), stream);
    vd.upload(v.data(), stream);
    AttentionForwardArguments arguments;
    arguments.q = Argument::dense(qd.address, ElementType::F16, {B, Hq, S, D});
    arguments.k = Argument::dense(kd.address, ElementType::F16, {B, Hkv, S, D});
    arguments.v = Argument::dense(vd.address, ElementType::F16, {B, Hkv, S, D});
    arguments.o = Argument::dense(od.address, ElementType::F16, {B, Hq, S, D});
    arguments.lse = Argument::dense(lsed.address, ElementType::F32, {B, Hq, S});
    arguments.scale = 1 / std::sqrt(float(D));
    uint64_t workspace = 0;
    check(plan.workspaceSize(arguments, 0, workspace));
    if (workspace != 0)
      fail("the kernel of this example needs no workspace");
    std::vector<double> expected = attendOnCpu(q, k, v, arguments.scale);

    od.poison(stream);
    check(plan.run(arguments, 0, 0, stream));
    od.download(o.data(), stream);
    ok &= isRight("on a stream", o, expected);

    // The same run, recorded once and replayed: it allocates and synchronizes nothing.
    od.poison(stream);
    CHECK_CALL(driver, cuStreamSynchronize, stream);
    cuda::Graph graph = nullptr;
    cuda::GraphExec executable = nullptr;
    constexpr int captureThreadLocal = 1;
    CHECK_CALL(driver, cuStreamBeginCapture, stream, captureThreadLocal);
    check(plan.run(arguments, 0, 0, stream));
    CHECK_CALL(driver, cuStreamEndCapture, stream, &graph);
    CHECK_CALL(driver, cuGraphInstantiate, &executable, graph, 0);
    for (int replay = 0; replay < 10; ++replay)
      CHECK_CALL(driver, cuGraphLaunch, executable, stream);
    od.download(o.data(), stream);
    ok &= isRight("in a graph", o, expected);
    CHECK_CALL(driver, cuGraphExecDestroy, executable);
    CHECK_CALL(driver, cuGraphDestroy, graph);

    if (backwardBundle) {
      AttentionBackwardDesc backwardDesc;
      static_cast<AttentionDesc &>(backwardDesc) = desc;
      AttentionBackward backward =
          take(AttentionBackward::create(driver, backwardBundle, backwardDesc));
      check(backward.prepare(0));
      std::vector<uint16_t> dO = makeInput(o.size(), generator);
      std::vector<uint16_t> dq(q.size()), dk(k.size()), dv(v.size());
      DeviceArray dOd(driver, 2 * dO.size()), dqd(driver, 2 * dq.size());
      DeviceArray dkd(driver, 2 * dk.size()), dvd(driver, 2 * dv.size());
      dOd.upload(dO.data(), stream);
      AttentionBackwardArguments gradients;
      gradients.q = arguments.q;
      gradients.k = arguments.k;
      gradients.v = arguments.v;
      gradients.o = arguments.o;
      gradients.lse = arguments.lse;
      gradients.scale = arguments.scale;
      gradients.dO = Argument::dense(dOd.address, ElementType::F16, {B, Hq, S, D});
      gradients.dQ = Argument::dense(dqd.address, ElementType::F16, {B, Hq, S, D});
      gradients.dK = Argument::dense(dkd.address, ElementType::F16, {B, Hkv, S, D});
      gradients.dV = Argument::dense(dvd.address, ElementType::F16, {B, Hkv, S, D});
      check(backward.workspaceSize(gradients, 0, workspace));
      DeviceArray memory(driver, workspace); // cuMemAlloc aligns to 256 bytes
      check(backward.run(gradients, memory.address, workspace, stream));
      dqd.download(dq.data(), stream);
      dkd.download(dk.data(), stream);
      dvd.download(dv.data(), stream);
      ok &= areGradients(q, k, dO, dq, dk, dv);
    }
  }
  CHECK_CALL(driver, cuStreamDestroy, stream);
  cuda::Context popped = nullptr;
  CHECK_CALL(driver, cuCtxPopCurrent, &popped);
  return ok ? 0 : 1;
}
