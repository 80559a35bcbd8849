// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C interface of reports.

#include "runtime/CApiSupport.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::capi;

struct tilewright_report {
  RunReport run;
  std::string sums;
  std::vector<std::string> sumsOfLaunches;
};

static std::string listOf(const std::vector<ElementType> &types) {
  std::string text;
  for (ElementType type : types)
    text += (text.empty() ? "" : ",") + std::string(elementTypeName(type));
  return text;
}

tilewright_report *capi::newReport(RunReport run) {
  auto report = std::make_unique<tilewright_report>();
  report->sums = listOf(run.sums);
  for (const LaunchReport &launch : run.launches)
    report->sumsOfLaunches.push_back(listOf(launch.sums));
  report->run = std::move(run);
  return report.release();
}

tilewright_code tilewright_report_run(const tilewright_report *report, tilewright_run_info *info) {
  return guard([&]() -> Status {
    if (Status status = expectPointers({{"report", report}, {"info", info}}); !status)
      return status;
    if (Status status = expectSize(*info, "tilewright_run_info"); !status)
      return status;
    const RunReport &run = report->run;
    info->name = run.name.c_str();
    info->target = run.target.c_str();
    info->params = run.params.c_str();
    info->sums = report->sums.c_str();
    info->call = run.call.c_str();
    info->determinism = tilewright_determinism(run.determinism);
    info->workspace_bytes = run.workspaceBytes;
    info->num_launches = run.launches.size();
    return Status::success();
  });
}

tilewright_code tilewright_report_launch(const tilewright_report *report, size_t index,
                                         tilewright_launch_info *info) {
  return guard([&]() -> Status {
    if (Status status = expectPointers({{"report", report}, {"info", info}}); !status)
      return status;
    if (Status status = expectSize(*info, "tilewright_launch_info"); !status)
      return status;
    if (index >= report->run.launches.size())
      return Status::failure("index must be less than the number of launches, " +
                             std::to_string(report->run.launches.size()) + ", but got " +
                             std::to_string(index));
    const LaunchReport &launch = report->run.launches[index];
    info->kernel = launch.kernel.c_str();
    info->entry = launch.entry.c_str();
    info->target = launch.target.c_str();
    info->params = launch.params.c_str();
    info->sums = report->sumsOfLaunches[index].c_str();
    info->determinism = tilewright_determinism(launch.determinism);
    info->is_cubin = launch.isCubin;
    std::copy_n(launch.grid.begin(), 3, info->grid);
    std::copy_n(launch.block.begin(), 3, info->block);
    std::copy_n(launch.cluster.begin(), 3, info->cluster);
    info->shared_bytes = launch.sharedBytes;
    return Status::success();
  });
}

void tilewright_report_destroy(tilewright_report *report) { delete report; }
