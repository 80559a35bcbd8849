// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The report of a comparison. Who wrote an element is found by running each side again with that
// element watched, which costs nothing where the sides agree.

#include "tools/tilewright-run/Compare.h"

#include "lib/Driver/Progress.h"
#include "lib/Interpreter/Watch.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/WithColor.h"

using namespace tilewright;

namespace {

constexpr llvm::StringLiteral sideNames[2] = {"a", "b"};

struct Place {
  llvm::StringRef what; ///< "first" or "worst"
  int64_t position;
  const double *values;
};

llvm::SmallVector<Place, 2> placesOf(const ArrayDifference &difference) {
  llvm::SmallVector<Place, 2> places;
  if (difference.beyond == 0)
    return places;
  places.push_back({"first", difference.first, difference.firstValues});
  if (difference.worst != difference.first)
    places.push_back({"worst", difference.worst, difference.worstValues});
  return places;
}

const void *addressOf(const HostArray &array, int64_t position) {
  int64_t offset = 0;
  for (auto [index, stride] :
       llvm::zip_equal(toIndices(position, array.getShape()), array.getStrides()))
    offset += index * stride;
  return static_cast<const char *>(array.getData()) +
         offset * static_cast<int64_t>(byteWidth(array.getType()));
}

std::string describe(const WatchList::Element &element) {
  if (element.numWriters == 0)
    return "nothing";
  if (element.numWriters == 1)
    return element.writer;
  return element.writer + " (the last of " + std::to_string(element.numWriters) + " instances)";
}

/// For each place of each array the text of who wrote it.
using Writers = std::vector<std::string>;

llvm::Expected<Writers> findWriters(FileRun &run, llvm::ArrayRef<ArrayDifference> differences) {
  std::vector<std::pair<const void *, size_t>> addresses;
  for (auto [result, difference] : llvm::zip_equal(run.getBinding().getResults(), differences))
    for (const Place &place : placesOf(difference))
      addresses.emplace_back(addressOf(result.memory, place.position),
                             byteWidth(result.memory.getType()));
  Writers writers(addresses.size());
  if (addresses.empty() || run.getKind() == DeviceName::Kind::Cuda)
    return writers;
  WatchList watches(addresses);
  llvm::Expected<double> seconds = run.run(&watches);
  if (!seconds)
    return seconds.takeError();
  for (auto [text, element] : llvm::zip_equal(writers, watches.getElements()))
    text = describe(element);
  return writers;
}

/// "; written by @softmax at r = 3", of one side or both; nothing is known of a GPU.
void printWriters(llvm::raw_ostream &os, const std::string &a, const std::string &b) {
  if (a.empty() && b.empty())
    return;
  os << "; written by ";
  if (a == b || a.empty() || b.empty())
    os << (a.empty() ? b : a);
  else
    os << a << " in a, " << b << " in b";
}

void printTolerance(llvm::raw_ostream &os, const Tolerance &tolerance) {
  os << llvm::format("%.3g relative + %.3g absolute", tolerance.relative, tolerance.absolute);
}

void printArray(llvm::raw_ostream &os, NpyBinding::ResultArray result,
                const ArrayDifference &difference, llvm::ArrayRef<std::string> writersA,
                llvm::ArrayRef<std::string> writersB) {
  llvm::ArrayRef<int64_t> shape = result.memory.getShape();
  os << result.name << " [";
  llvm::interleaveComma(shape, os);
  os << "] of " << std::string(elementTypeName(result.memory.getType())) << ": ";
  if (difference.sameBits) {
    os << "equal bits\n";
    return;
  }
  if (difference.beyond == 0)
    os << "equal within ";
  else
    os << difference.beyond << " of " << difference.count << " elements differ by more than ";
  printTolerance(os, difference.tolerance);
  os << llvm::format("\n  greatest difference %.3g absolute, %.3g relative", difference.absolute,
                     difference.relative);
  if (difference.nonFinite)
    os << "; " << difference.nonFinite << " NaN or infinite on one side only";
  os << '\n';
  for (auto [i, place] : llvm::enumerate(placesOf(difference))) {
    os << "  " << place.what << " at " << result.name << '[';
    llvm::interleaveComma(toIndices(place.position, shape), os);
    os << llvm::format("]: a %.9g, b %.9g", place.values[0], place.values[1]);
    printWriters(os, writersA[i], writersB[i]);
    os << '\n';
  }
}

} // namespace

ExitCode tilewright::compareRuns(llvm::StringRef tool, mlir::MLIRContext &context,
                                 llvm::ArrayRef<ComparedSide> sides,
                                 std::optional<Tolerance> tolerance, bool isQuiet,
                                 llvm::raw_ostream &os) {
  DiagnosticPrinter diagnostics(context, tool);
  std::optional<Progress> progress(std::in_place, tool, isQuiet);
  auto fail = [&](const ComparedSide *side, llvm::Error error) {
    if (diagnostics.sawError())
      llvm::consumeError(std::move(error)); // the diagnostic is more precise
    else
      reportFailure(tool, std::move(error));
    Progress::hide();
    if (side)
      llvm::WithColor::note(llvm::errs(), tool) << "of the side " << side->text << '\n';
    return exitFailed;
  };

  // Wrong usage of either side before anything is read.
  std::vector<std::unique_ptr<FileRun>> runs;
  for (const ComparedSide &side : sides) {
    llvm::Expected<std::unique_ptr<FileRun>> run = FileRun::create(context, side.request);
    if (!run)
      return reportUsage(tool,
                         "--compare: side " + side.text + ": " + llvm::toString(run.takeError()));
    runs.push_back(std::move(*run));
  }
  for (auto [run, side] : llvm::zip_equal(runs, sides)) {
    progress->show("compiles and runs " + side.text);
    llvm::Error error = run->read(&diagnostics);
    if (!error)
      error = run->compile();
    if (!error) {
      llvm::Expected<double> seconds = run->run();
      error = seconds ? run->getBinding().checkGaps() : seconds.takeError();
    }
    if (error)
      return fail(&side, std::move(error));
  }
  if (llvm::Error error = runs[0]->getBinding().writeResults())
    return fail(nullptr, std::move(error));

  auto resultsA = runs[0]->getBinding().getResults(), resultsB = runs[1]->getBinding().getResults();
  std::vector<ArrayDifference> differences;
  for (auto [a, b] : llvm::zip_equal(resultsA, resultsB)) {
    llvm::Expected<ArrayDifference> difference = compareArrays(a.memory, b.memory, tolerance);
    if (!difference)
      return fail(nullptr, difference.takeError());
    differences.push_back(std::move(*difference));
  }
  std::vector<Writers> writers;
  for (auto [run, side] : llvm::zip_equal(runs, sides)) {
    progress->show("locates the writers in " + side.text);
    llvm::Expected<Writers> found = findWriters(*run, differences);
    if (!found)
      return fail(&side, found.takeError());
    writers.push_back(std::move(*found));
  }

  progress.reset();
  for (auto [name, side] : llvm::zip(sideNames, sides))
    os << name << ": " << side.text << '\n';
  size_t at = 0;
  bool agrees = true;
  for (auto [result, difference] : llvm::zip_equal(resultsA, differences)) {
    size_t places = placesOf(difference).size();
    printArray(os, result, difference, llvm::ArrayRef(writers[0]).slice(at, places),
               llvm::ArrayRef(writers[1]).slice(at, places));
    at += places;
    agrees &= difference.beyond == 0;
  }
  return agrees ? exitDone : exitFailed;
}
