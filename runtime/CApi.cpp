// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C interface of bundles and operations.

#include "runtime/CApiSupport.h"
#include "runtime/CacheFolder.h"
#include "runtime/Timeline.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::capi;

struct tilewright_operation {
  Operation operation;
  Status driver; // why there is no driver; bundles can be queried without a GPU
};

tilewright_code tilewright_bundle_open(const char *path, tilewright_bundle **bundle) {
  return guard([&]() -> Status {
    if (Status status = expectPointers({{"path", path}, {"bundle", bundle}}); !status)
      return status;
    Result<std::shared_ptr<const Bundle>> opened = Bundle::open(path);
    if (!opened)
      return opened.status();
    *bundle = new tilewright_bundle(*opened);
    return Status::success();
  });
}

tilewright_code tilewright_bundle_load(const void *bytes, size_t size, tilewright_bundle **bundle) {
  return guard([&]() -> Status {
    if (Status status = expectPointers({{"bytes", bytes}, {"bundle", bundle}}); !status)
      return status;
    Result<std::shared_ptr<const Bundle>> loaded =
        Bundle::fromBytes(std::string(static_cast<const char *>(bytes), size));
    if (!loaded)
      return loaded.status();
    *bundle = new tilewright_bundle(*loaded);
    return Status::success();
  });
}

void tilewright_bundle_close(tilewright_bundle *bundle) { delete bundle; }

const char *tilewright_bundle_remarks(const tilewright_bundle *bundle) {
  return bundle ? bundle->remarks.c_str() : "";
}

tilewright_code tilewright_timeline_write(const tilewright_bundle *bundle, const void *timeline,
                                          size_t bytes, const char *path) {
  return guard([&]() -> Status {
    if (Status status =
            expectPointers({{"bundle", bundle}, {"timeline", timeline}, {"path", path}});
        !status)
      return status;
    if (toAddress(timeline) % 8 != 0)
      return Status::failure(
          "a timeline must begin at a multiple of 8 bytes, but got an address with "
          "the remainder " +
          std::to_string(toAddress(timeline) % 8));
    Result<std::string> text = timelineToJson(bundle->bundle->manifest(), timeline, bytes);
    return text ? writeFileAtomically(path, *text) : text.status();
  });
}

tilewright_code tilewright_operation_create(const tilewright_bundle *bundle, const char *name,
                                            const tilewright_param *params, size_t num_params,
                                            tilewright_operation **operation) {
  return guard([&]() -> Status {
    if (Status status =
            expectPointers({{"bundle", bundle}, {"name", name}, {"operation", operation}});
        !status)
      return status;
    if (num_params && !params)
      return nullPointer("params");
    Params wanted;
    if (Status status = toParams(params, num_params, wanted); !status)
      return status;
    Status driverStatus;
    const DriverTable &driver = findDriver(driverStatus);
    Result<Operation> created = Operation::create(driver, bundle->bundle, name, wanted);
    if (!created)
      return created.status();
    *operation = new tilewright_operation{std::move(*created), driverStatus};
    return Status::success();
  });
}

void tilewright_operation_destroy(tilewright_operation *operation) { delete operation; }

size_t tilewright_operation_num_arguments(const tilewright_operation *operation) {
  return operation ? operation->operation.arguments().size() : 0;
}

const char *tilewright_operation_argument_name(const tilewright_operation *operation,
                                               size_t index) {
  return index < tilewright_operation_num_arguments(operation)
             ? operation->operation.arguments()[index].name.c_str()
             : nullptr;
}

tilewright_code tilewright_operation_check_support(const tilewright_operation *operation, int major,
                                                   int minor, int shared_bytes) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(operation, "operation"); !status)
      return status;
    return operation->operation.checkSupport({major, minor, shared_bytes});
  });
}

tilewright_code tilewright_operation_prepare(tilewright_operation *operation, int device) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(operation, "operation"); !status)
      return status;
    return operation->driver.ok() ? operation->operation.prepare(device) : operation->driver;
  });
}

tilewright_code tilewright_operation_check_indices(tilewright_operation *operation, int wanted) {
  return setFlag(operation, "operation", wanted,
                 [](auto &handle, bool flag) { handle.operation.checkIndices(flag); });
}

tilewright_code tilewright_operation_overlap_previous(tilewright_operation *operation, int wanted) {
  return setFlag(operation, "operation", wanted,
                 [](auto &handle, bool flag) { handle.operation.overlapPrevious(flag); });
}

tilewright_code tilewright_operation_workspace_size(const tilewright_operation *operation,
                                                    const tilewright_argument *arguments,
                                                    size_t num_arguments, int device,
                                                    uint64_t *bytes) {
  return guard([&]() -> Status {
    if (Status status = expectPointers({{"operation", operation}, {"bytes", bytes}}); !status)
      return status;
    PlacedArguments placed;
    if (Status status =
            placeByName(arguments, num_arguments, operation->operation.arguments(), placed);
        !status)
      return status;
    return operation->operation.workspaceSize(placed.pointers, placed.count, device, *bytes);
  });
}

tilewright_code tilewright_operation_run(const tilewright_operation *operation,
                                         const tilewright_argument *arguments, size_t num_arguments,
                                         void *workspace, uint64_t workspace_bytes, void *stream) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(operation, "operation"); !status)
      return status;
    if (!operation->driver.ok())
      return operation->driver;
    PlacedArguments placed;
    if (Status status =
            placeByName(arguments, num_arguments, operation->operation.arguments(), placed);
        !status)
      return status;
    return operation->operation.run(placed.pointers, operation->operation.arguments().size(),
                                    toAddress(workspace), workspace_bytes, toStream(stream));
  });
}

tilewright_code tilewright_operation_report(const tilewright_operation *operation,
                                            const tilewright_argument *arguments,
                                            size_t num_arguments, int device,
                                            const tilewright_target *target,
                                            tilewright_report **report) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(operation, "operation"); !status)
      return status;
    return makeReport(operation->operation, arguments, num_arguments, device, target, report);
  });
}

/// Fills the struct; with `clears`, after all entries were removed.
static tilewright_code useCache(tilewright_cache *cache, bool clears) {
  return guard([&]() -> Status {
    thread_local std::string path, reason;
    if (Status status = expectPointer(cache, "cache"); !status)
      return status;
    if (Status status = expectSize(*cache, "tilewright_cache"); !status)
      return status;
    CacheFolder folder = CacheFolder::fromEnvironment();
    Status usable = folder.check();
    if (clears && !usable)
      return usable;
    if (clears)
      folder.clear();
    path = folder.path();
    reason = usable.message();
    CacheFolder::Contents contents = folder.list();
    cache->folder = path.c_str();
    cache->unused = usable.ok() ? nullptr : reason.c_str();
    cache->entries = contents.entries;
    cache->bytes = contents.bytes;
    cache->limit_bytes = folder.getLimit();
    return Status::success();
  });
}

tilewright_code tilewright_cache_query(tilewright_cache *cache) { return useCache(cache, false); }
tilewright_code tilewright_cache_clear(tilewright_cache *cache) { return useCache(cache, true); }
