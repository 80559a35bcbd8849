// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decode, messages with its results, and a merge.

#include "runtime/Distributed/SpreadDecode.h"

#include "runtime/Distributed/Checks.h"

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

class Spread : public SpreadDecode {
public:
  Spread(Processor &processor, Communicator &communicator, const SpreadDecodeDesc &desc)
      : processor(processor), communicator(communicator), desc(desc) {
    AttentionDesc &attention = this->desc.attention;
    attention.valueDim = attention.valueDim ? attention.valueDim : attention.headDim;
    if (desc.lastRank < 0)
      this->desc.lastRank = communicator.size() - 1;
    type = attention.type;
    sums = sumTypeOf(type);
    const uint64_t rows = uint64_t(desc.batch * desc.rows * desc.heads);
    resultBytes = (rows * uint64_t(attention.valueDim) * byteWidth(type) + 255) / 256 * 256;
    partBytes = resultBytes + (rows * byteWidth(sums) + 255) / 256 * 256;
  }

  Status prepare() {
    if (Status status = checkDesc(); !status)
      return status;
    AttentionDesc own = desc.attention;
    // Keys of other ranks than the last are before all queries.
    if (communicator.rank() != desc.lastRank)
      own.causal = AttentionDesc::Causal::None;
    auto loaded = processor.load(own);
    if (!loaded)
      return loaded.status();
    decode = std::move(*loaded);
    if (hasResult()) {
      auto merging = processor.load("attention_merge",
                                    {{"D", Expr::integer(own.valueDim)}, {"T", typeValue(type)}});
      if (!merging)
        return merging.status();
      merge = std::move(*merging);
    }
    // Parts of all ranks, where the results are; else the own one.
    Result<ProcessorMemory> made = ProcessorMemory::allocate(
        processor, partBytes * uint64_t(hasResult() ? communicator.size() : 1));
    if (!made)
      return made.status();
    parts = std::move(*made);
    return Status::success();
  }

  std::vector<std::pair<const char *, int64_t>> fields() const {
    AttentionDesc attention = desc.attention;
    attention.pageRows.reset(); // of the part of a rank
    return {{"type, widths and parameters", keyOf(signatureOf(attention))},
            {"batch", desc.batch},
            {"heads", desc.heads},
            {"number of queries", desc.rows},
            {"scale", bitsOf(desc.scale)},
            {"last rank", desc.lastRank},
            {"rank of the results", desc.resultRank}};
  }

  Status run(const SpreadDecodeArguments &arguments) override {
    Status status = checkArguments(arguments);
    if (status)
      status = launch(arguments);
    if (!status)
      communicator.abort(status);
    return status;
  }

private:
  bool hasResult() const { return desc.resultRank < 0 || desc.resultRank == communicator.rank(); }

  Status checkDesc() const {
    const AttentionDesc &attention = desc.attention;
    if (attention.kind != AttentionDesc::Kind::Decode)
      return Status::failure("decoding with keys spread over ranks must be a decode, but got "
                             "another kind");
    if (attention.isPacked || attention.hasLeftpad || attention.hasWindow || attention.listBlockM ||
        attention.listBlockN || attention.causal == AttentionDesc::Causal::TopLeft)
      return Status::failure("decoding with keys spread over ranks must not be packed, listed, "
                             "top_left, or have a window or padding, which are relative to all "
                             "keys; keep each sequence on one rank");
    if (desc.rows < 1 || desc.rows > attention.maxRows)
      return Status::failure("the number of queries must be from 1 to maxRows, " +
                             std::to_string(attention.maxRows) + ", but got " +
                             std::to_string(desc.rows));
    if (desc.batch < 0 || desc.heads < 1 || desc.heads % attention.group)
      return Status::failure("heads must be a multiple of the group, and the batch not negative, "
                             "but got " +
                             std::to_string(desc.heads) + " in groups of " +
                             std::to_string(attention.group) + ", batch " +
                             std::to_string(desc.batch));
    for (int rank : {desc.lastRank, desc.resultRank})
      if (rank >= communicator.size())
        return Status::failure("the last rank and that of the results must be below " +
                               std::to_string(communicator.size()) + ", but got " +
                               std::to_string(rank));
    return Status::success();
  }

  Status checkArguments(const SpreadDecodeArguments &arguments) const {
    const AttentionDesc &attention = desc.attention;
    for (const NamedArgument &each : arguments.more)
      if (each.name == "sinks")
        return Status::failure("decoding with keys spread over ranks must not have sinks, which "
                               "each rank would count; keep each sequence on one rank");
    Status status =
        expectView("q", arguments.q, type, {desc.batch, desc.heads, desc.rows, attention.headDim});
    if (!status || !hasResult())
      return status;
    status =
        expectView("o", arguments.o, type, {desc.batch, desc.heads, desc.rows, attention.valueDim});
    if (status && arguments.lse.kind != Argument::Kind::Absent)
      status = expectView("lse", arguments.lse, sums, {desc.batch, desc.heads, desc.rows});
    if (status && !(areRows(arguments.o) && areRows(arguments.lse)))
      status = Status::failure("o and lse must have the queries of a sequence one after another as "
                               "sequences are, or one query or sequence, but got other strides");
    return status;
  }

  /// Whether sequences and queries of [B, H, rows, ...] are one dimension.
  bool areRows(const Argument &view) const {
    return view.kind == Argument::Kind::Absent || desc.batch <= 1 || desc.rows == 1 ||
           view.strides[0] == desc.rows * view.strides[2];
  }

  /// [B * rows, H, ...] of a view [B, H, rows, ...].
  Argument mergedRows(const Argument &view) const {
    Argument rows = view;
    if (view.kind == Argument::Kind::Absent)
      return rows;
    rows.rank = uint8_t(view.rank - 1);
    rows.extents[0] = desc.batch * desc.rows;
    rows.strides[0] = desc.rows == 1 ? view.strides[0] : view.strides[2];
    rows.extents[1] = view.extents[1];
    rows.strides[1] = view.strides[1];
    for (unsigned i = 2; i < rows.rank; ++i) {
      rows.extents[i] = view.extents[i + 1];
      rows.strides[i] = view.strides[i + 1];
    }
    return rows;
  }

  uint64_t placeOf(int rank) const {
    return parts.get() + (hasResult() ? uint64_t(rank) * partBytes : 0);
  }

  Status launch(const SpreadDecodeArguments &arguments) {
    const int64_t B = desc.batch, R = desc.rows, H = desc.heads, DV = desc.attention.valueDim;
    // A part is [B, rows, H, DV], then its LSE [B, rows, H], so that the merge has rows.
    const uint64_t own = placeOf(communicator.rank());
    const int64_t extents[] = {B, H, R, DV}, strides[] = {R * H * DV, DV, H * DV, 1};
    const int64_t sumStrides[] = {R * H, 1, H};
    NamedArguments values = {
        {"q", arguments.q},
        {"k_pages", arguments.kPages},
        {"v_pages", arguments.vPages},
        {"o", Argument::view(own, type, 4, extents, strides), true},
        {"lse", Argument::view(own + resultBytes, sums, 3, extents, sumStrides), true},
        {"seq_lens", arguments.seqLens},
        {"scale", Argument::scalar(desc.scale)},
        {"window_left", Argument::scalar(int32_t(-1))},
        {"window_right", Argument::scalar(int32_t(-1))},
    };
    if (arguments.blockTable.kind != Argument::Kind::Absent)
      values.push_back({"block_table", arguments.blockTable});
    values.insert(values.end(), arguments.more.begin(), arguments.more.end());
    if (Status status = decode->run(values); !status)
      return status;

    if (Status status = processor.order(Queue::Compute, Queue::Exchange); !status)
      return status;
    std::vector<Message> messages;
    for (int other = 0; other < communicator.size(); ++other) {
      if (other == communicator.rank())
        continue;
      if (desc.resultRank < 0 || desc.resultRank == other)
        messages.push_back({Message::Kind::Send, own, partBytes, other});
      if (hasResult())
        messages.push_back({Message::Kind::Receive, placeOf(other), partBytes, other});
    }
    const cuda::Stream stream = processor.stream(Queue::Exchange);
    if (Status status = communicator.post(messages, stream, "exchange results"); !status)
      return status;
    if (Status status = communicator.complete(stream); !status)
      return status;
    if (Status status = processor.order(Queue::Exchange, Queue::Compute); !status)
      return status;
    if (!hasResult())
      return Status::success();

    const int64_t rows = B * R, N = communicator.size();
    const int64_t element = int64_t(byteWidth(type)), sumElement = int64_t(byteWidth(sums));
    const int64_t all[] = {rows, N, H, DV};
    const int64_t partStrides[] = {H * DV, int64_t(partBytes) / element, DV, 1};
    const int64_t lseStrides[] = {H, int64_t(partBytes) / sumElement, 1};
    NamedArguments merged = {
        {"o_parts", Argument::view(parts.get(), type, 4, all, partStrides)},
        {"lse_parts", Argument::view(parts.get() + resultBytes, sums, 3, all, lseStrides)},
        {"o", mergedRows(arguments.o), true}};
    if (arguments.lse.kind != Argument::Kind::Absent)
      merged.push_back({"lse", mergedRows(arguments.lse), true});
    return merge->run(merged);
  }

  Processor &processor;
  Communicator &communicator;
  SpreadDecodeDesc desc;
  ElementType type = ElementType::F32, sums = ElementType::F32;
  uint64_t resultBytes = 0, partBytes = 0;
  std::unique_ptr<ProcessorKernel> decode, merge;
  ProcessorMemory parts;
};

} // namespace

Result<std::unique_ptr<SpreadDecode>> SpreadDecode::create(Processor &processor,
                                                           Communicator &communicator,
                                                           const SpreadDecodeDesc &desc) {
  auto spread = std::make_unique<Spread>(processor, communicator, desc);
  if (Status status = agree(processor, communicator, spread->prepare(), spread->fields()); !status)
    return status;
  return std::unique_ptr<SpreadDecode>(std::move(spread));
}
