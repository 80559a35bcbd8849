// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// serve.cpp in Rust, by the C interface: an engine that appends to a cache in pages, decodes, and
// processes chunks of prompts in one CUDA graph. It uses no crates, and libtilewright.so and the
// CUDA driver alone. Rust 1.63 compiles it:
//
//   rustc --edition 2021 -O -L LIB -C link-arg=-Wl,-rpath,LIB examples/serve.rs
//   serve append.twb decode.twb prefill.twb
//
// serve.cpp says how the bundles are compiled, and what happens without a GPU.
//
// Exit code: 0 if all results are right, also without a GPU, which it says; else 1.

use std::ffi::{c_void, CStr, CString};
use std::os::raw::{c_char, c_int, c_uint};
use std::ptr::{null, null_mut};

const HEADS: usize = 8; // the model
const KEY_HEADS: usize = 2;
const DIM: usize = 64;
const PAGES: usize = 40; // the pool
const PAGE_ROWS: usize = 16;
const TABLE_COLUMNS: usize = 12; // pages that a sequence may have
const RUNNING: usize = 4; // sequences that a step decodes at most
const PROMPTS: usize = 2; // sequences and rows of prompts in a step
const CHUNK_ROWS: usize = 48;
const STEP_ROWS: usize = RUNNING + CHUNK_ROWS; // decoded rows come first
const VOCABULARY: usize = 61;
const Q_WIDTH: usize = HEADS * DIM;
const KV_WIDTH: usize = KEY_HEADS * DIM;

fn fail(message: &str) -> ! {
    eprintln!("serve: {message}");
    std::process::exit(1)
}

//===----------------------------------------------------------------------===//
// tilewright.h, as far as this program needs it
//===----------------------------------------------------------------------===//

const F32: c_int = 1;
const F16: c_int = 2;
const I32: c_int = 7;
const CAUSAL_BOTTOM_RIGHT: c_int = 2;
const KIND_DECODE: c_int = 2;
const KIND_APPEND: c_int = 3;
const KIND_CACHED: c_int = 4;

#[repr(C)]
struct View {
    struct_size: usize,
    data: u64,
    element: c_int,
    rank: u32,
    extents: *const i64,
    strides: *const i64,
}

#[repr(C)]
struct Argument {
    struct_size: usize,
    name: *const c_char,
    view: *const View,
    scalar: *const c_void,
    scalar_type: c_int,
}

#[repr(C)]
struct AttentionDesc {
    struct_size: usize,
    kind: c_int,
    element: c_int,
    head_dim: i64,
    value_dim: i64,
    entry: *const c_char,
    params: *const c_void,
    num_params: usize,
    causal: c_int,
    has_window: c_int,
    packed: c_int,
    list_block_m: i64,
    list_block_n: i64,
    cached: c_int,
    page_rows: i64,
    deterministic: c_int,
    ordered: c_int,
    score_gradient: c_int,
    capture_gradients: c_int,
    num_splits: i32,
    group: i64,
    max_rows: i64,
    places: c_int,
    wide_indices: c_int,
    positions: c_int,
    rotary: i64,
    rotary_pairs: c_int,
    rotary_first: c_int,
    rotary_type: c_int,
    leftpad: c_int,
}

type Handle = *mut c_void; // of a bundle or a plan

#[link(name = "tilewright")]
extern "C" {
    fn tilewright_last_error() -> *const c_char;
    fn tilewright_bundle_open(path: *const c_char, bundle: *mut Handle) -> c_int;
    fn tilewright_bundle_close(bundle: Handle);
    fn tilewright_attention_describe(desc: *mut AttentionDesc, arguments: *const Argument, count: usize) -> c_int;
    fn tilewright_attention_signature(desc: *const AttentionDesc, signature: *mut *const c_char) -> c_int;
    fn tilewright_attention_create(bundle: Handle, desc: *const AttentionDesc, plan: *mut Handle) -> c_int;
    fn tilewright_attention_destroy(plan: Handle);
    fn tilewright_attention_check_support(plan: Handle, major: c_int, minor: c_int, shared_bytes: c_int) -> c_int;
    fn tilewright_attention_prepare(plan: Handle, device: c_int) -> c_int;
    fn tilewright_attention_workspace_size(
        plan: Handle, arguments: *const Argument, count: usize, device: c_int, bytes: *mut u64,
    ) -> c_int;
    fn tilewright_attention_run(
        plan: Handle, arguments: *const Argument, count: usize, workspace: u64, bytes: u64, stream: Handle,
    ) -> c_int;
}

fn text_of(text: *const c_char) -> String {
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn check(code: c_int) {
    if code != 0 {
        fail(&text_of(unsafe { tilewright_last_error() }));
    }
}

enum Value {
    Array { address: u64, element: c_int, extents: Vec<i64>, strides: Vec<i64> },
    Scalar(f32),
}

fn dense(address: u64, element: c_int, extents: &[usize]) -> Value {
    let extents: Vec<i64> = extents.iter().map(|&extent| extent as i64).collect();
    Value::Array { address, element, extents, strides: vec![] }
}

/// A plan and its arguments, which point to what the other fields hold on the heap.
struct Call {
    plan: Handle,
    arguments: Vec<Argument>,
    _names: Vec<CString>,
    _values: Vec<Value>,
    _views: Vec<View>,
}

impl Call {
    /// The plan for these arguments. The library says which kernel attends to the cache.
    fn new(bundle: &str, kind: c_int, causal: c_int, named: Vec<(&str, Value)>) -> Call {
        let mut desc = AttentionDesc {
            struct_size: std::mem::size_of::<AttentionDesc>(),
            kind,
            causal,
            ..unsafe { std::mem::zeroed() }
        };
        let (names, values): (Vec<&str>, Vec<Value>) = named.into_iter().unzip();
        let mut names: Vec<CString> = names.iter().map(|name| CString::new(*name).unwrap()).collect();
        let views: Vec<View> = values
            .iter()
            .filter_map(|value| match value {
                Value::Array { address, element, extents, strides } => Some(View {
                    struct_size: std::mem::size_of::<View>(),
                    data: *address,
                    element: *element,
                    rank: extents.len() as u32,
                    extents: extents.as_ptr(),
                    strides: if strides.is_empty() { null() } else { strides.as_ptr() },
                }),
                Value::Scalar(_) => None,
            })
            .collect();
        let list = |names: &[CString]| {
            let mut next = views.iter();
            let as_argument = |(name, value): (&CString, &Value)| {
                let (view, scalar) = match value {
                    Value::Array { .. } => (next.next().unwrap() as *const View, null()),
                    Value::Scalar(number) => (null(), number as *const f32 as *const c_void),
                };
                let struct_size = std::mem::size_of::<Argument>();
                Argument { struct_size, name: name.as_ptr(), view, scalar, scalar_type: F32 }
            };
            names.iter().zip(&values).map(as_argument).collect::<Vec<Argument>>()
        };
        let mut plan = null_mut();
        let path = CString::new(bundle).unwrap_or_else(|_| fail("a name of a file has a zero byte"));
        let arguments = list(&names);
        unsafe { check(tilewright_attention_describe(&mut desc, arguments.as_ptr(), arguments.len())) };
        if desc.kind == KIND_DECODE {
            for name in &mut names {
                for (from, to) in [("k", "k_pages"), ("v", "v_pages")] {
                    if kind == KIND_CACHED && name.to_bytes() == from.as_bytes() {
                        *name = CString::new(to).unwrap();
                    }
                }
            }
        }
        let arguments = list(&names);
        unsafe {
            let (mut opened, mut signature) = (null_mut(), null());
            check(tilewright_bundle_open(path.as_ptr(), &mut opened));
            check(tilewright_attention_create(opened, &desc, &mut plan));
            tilewright_bundle_close(opened); // the plan keeps what it needs
            check(tilewright_attention_signature(&desc, &mut signature));
            println!("{}", text_of(signature));
        }
        Call { plan, arguments, _names: names, _values: values, _views: views }
    }

    fn workspace(&self) -> u64 {
        let mut bytes = 0;
        let (list, count) = (self.arguments.as_ptr(), self.arguments.len());
        check(unsafe { tilewright_attention_workspace_size(self.plan, list, count, 0, &mut bytes) });
        bytes
    }

    fn run(&self, workspace: u64, bytes: u64, stream: Handle) {
        let (list, count) = (self.arguments.as_ptr(), self.arguments.len());
        check(unsafe { tilewright_attention_run(self.plan, list, count, workspace, bytes, stream) });
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        unsafe { tilewright_attention_destroy(self.plan) };
    }
}

//===----------------------------------------------------------------------===//
// The model, and its results in f64
//===----------------------------------------------------------------------===//

/// Rounds to the nearest f16. Values are small, and no result is subnormal by more than its error.
fn to_f16(x: f32) -> u16 {
    let (bits, sign) = (x.to_bits() & 0x7fff_ffff, (x.to_bits() >> 16 & 0x8000) as u16);
    if bits < 0x3880_0000 {
        return sign | (f32::from_bits(bits) * 16_777_216.0).round() as u16; // a multiple of 2^-24
    }
    let rounded = bits + 0xfff + (bits >> 13 & 1);
    sign | ((rounded - 0x3800_0000) >> 13).min(0x7c00) as u16
}

fn from_f16(x: u16) -> f32 {
    let (sign, exponent, fraction) = (x >> 15, x >> 10 & 31, f32::from(x & 0x3ff));
    let size = match exponent {
        0 => fraction / 16_777_216.0,
        31 => if fraction == 0.0 { f32::INFINITY } else { f32::NAN },
        _ => (1.0 + fraction / 1024.0) * 2f32.powi(i32::from(exponent) - 15),
    };
    if sign == 1 { -size } else { size }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % bound
    }
    /// Of a distribution that is nearly normal, with variance 1.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.below(1 << 16) as f32 / 65536.0 - 0.5).sum()
    }
}

/// Rows of tokens.
struct Model {
    q: Vec<u16>,
    k: Vec<u16>,
    v: Vec<u16>,
}

impl Model {
    fn new() -> Model {
        let mut random = Random(1);
        let mut table = |width: usize| (0..VOCABULARY * width).map(|_| to_f16(random.normal())).collect();
        Model { q: table(Q_WIDTH), k: table(KV_WIDTH), v: table(KV_WIDTH) }
    }

    /// How similar the query of a token is to a result.
    fn similarity(&self, token: usize, o: &[f64]) -> f64 {
        row(&self.q, Q_WIDTH, token).iter().zip(o).map(|(&x, y)| f64::from(from_f16(x)) * y).sum()
    }

    fn most_similar(&self, o: &[f64]) -> usize {
        let all: Vec<f64> = (0..VOCABULARY).map(|token| self.similarity(token, o)).collect();
        (0..VOCABULARY).fold(0, |best, token| if all[token] > all[best] { token } else { best })
    }
}

fn row<T>(values: &[T], width: usize, number: usize) -> &[T] {
    &values[number * width..(number + 1) * width]
}

/// softmax(scale q K^T) V of one query, given the rows of its keys and values.
fn attend(q: &[u16], keys: &[&[u16]], values: &[&[u16]]) -> Vec<f64> {
    let mut o = vec![0.0; Q_WIDTH];
    for h in 0..HEADS {
        let of_head = |x: &[u16]| -> Vec<f64> {
            let at = h / (HEADS / KEY_HEADS) * DIM;
            x[at..at + DIM].iter().map(|&value| f64::from(from_f16(value))).collect()
        };
        let own: Vec<f64> = q[h * DIM..(h + 1) * DIM].iter().map(|&x| f64::from(from_f16(x))).collect();
        let dot = |key: &&[u16]| own.iter().zip(of_head(key)).map(|(x, y)| x * y).sum::<f64>();
        let scores: Vec<f64> = keys.iter().map(|key| dot(key) / (DIM as f64).sqrt()).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
        for (score, value) in scores.iter().zip(values) {
            let weight = (score - max).exp() / sum;
            for (result, x) in o[h * DIM..(h + 1) * DIM].iter_mut().zip(of_head(value)) {
                *result += weight * x;
            }
        }
    }
    o
}

//===----------------------------------------------------------------------===//
// Sequences, pages and steps
//===----------------------------------------------------------------------===//

#[derive(Default)]
struct Sequence {
    tokens: Vec<usize>,
    prompt: usize, // tokens of the prompt, and at the end
    wanted: usize,
    cached: usize, // tokens whose keys and values are in the cache
    pages: Vec<i32>,
}

impl Sequence {
    fn pages_at_the_end(&self) -> usize {
        (self.wanted + PAGE_ROWS - 1) / PAGE_ROWS
    }
}

struct PageAllocator {
    unused: Vec<i32>,
    reserved: usize,
}

impl PageAllocator {
    /// An engine would take pages from other sequences instead of waiting for all that may be needed.
    fn reserve(&mut self, sequence: &Sequence) -> bool {
        let fits = self.reserved + sequence.pages_at_the_end() <= PAGES;
        self.reserved += if fits { sequence.pages_at_the_end() } else { 0 };
        fits
    }
    /// The slot of the next key: a row of all pages.
    fn slot_of(&mut self, sequence: &mut Sequence, position: usize) -> i32 {
        if position == sequence.pages.len() * PAGE_ROWS {
            sequence.pages.push(self.unused.pop().unwrap());
        }
        sequence.pages[position / PAGE_ROWS] * PAGE_ROWS as i32 + (position % PAGE_ROWS) as i32
    }
    fn release(&mut self, sequence: &mut Sequence) {
        self.reserved -= sequence.pages_at_the_end();
        self.unused.append(&mut sequence.pages);
    }
}

/// What a graph reads and writes: arrays of fixed extents. Places without a sequence have a length
/// of 0 or no rows, and the slot -1.
struct Step {
    q: Vec<u16>,
    k: Vec<u16>,
    v: Vec<u16>,
    slots: Vec<i32>,
    table: Vec<i32>,
    lengths: Vec<i32>,
    prompt_table: Vec<i32>,
    prompt_lengths: Vec<i32>,
    starts: Vec<i32>, // of prompts among the rows of chunks
    o: Vec<u16>,
    rows: Vec<Option<(usize, usize)>>, // sequences and positions, for the scheduler alone
}

impl Step {
    fn empty() -> Step {
        Step {
            q: vec![0; STEP_ROWS * Q_WIDTH],
            k: vec![0; STEP_ROWS * KV_WIDTH],
            v: vec![0; STEP_ROWS * KV_WIDTH],
            slots: vec![-1; STEP_ROWS],
            table: vec![0; RUNNING * TABLE_COLUMNS],
            lengths: vec![0; RUNNING],
            prompt_table: vec![0; PROMPTS * TABLE_COLUMNS],
            prompt_lengths: vec![0; PROMPTS],
            starts: vec![0; PROMPTS + 1],
            o: vec![0; STEP_ROWS * Q_WIDTH],
            rows: vec![None; STEP_ROWS],
        }
    }

    fn add(&mut self, model: &Model, allocator: &mut PageAllocator, n: usize, number: usize, of: &mut Sequence) {
        let (position, token) = (of.cached, of.tokens[of.cached]);
        of.cached += 1;
        self.q[n * Q_WIDTH..(n + 1) * Q_WIDTH].copy_from_slice(row(&model.q, Q_WIDTH, token));
        self.k[n * KV_WIDTH..(n + 1) * KV_WIDTH].copy_from_slice(row(&model.k, KV_WIDTH, token));
        self.v[n * KV_WIDTH..(n + 1) * KV_WIDTH].copy_from_slice(row(&model.v, KV_WIDTH, token));
        self.slots[n] = allocator.slot_of(of, position);
        self.rows[n] = Some((number, position));
    }

    /// Decodes the active sequences whose prompts are cached, and continues the first prompts.
    fn new(model: &Model, allocator: &mut PageAllocator, sequences: &mut [Sequence], active: &[usize]) -> Step {
        let mut step = Step::empty();
        let (mut decoded, mut chunks, mut n) = (0, 0, RUNNING);
        for &number in active {
            let own = &mut sequences[number];
            if own.cached >= own.prompt {
                step.add(model, allocator, decoded, number, own);
                step.table[decoded * TABLE_COLUMNS..][..own.pages.len()].copy_from_slice(&own.pages);
                step.lengths[decoded] = own.cached as i32;
                decoded += 1;
            } else if chunks < PROMPTS && n < STEP_ROWS {
                while own.cached < own.prompt && n < STEP_ROWS {
                    step.add(model, allocator, n, number, own);
                    n += 1;
                }
                step.prompt_table[chunks * TABLE_COLUMNS..][..own.pages.len()].copy_from_slice(&own.pages);
                step.prompt_lengths[chunks] = own.cached as i32;
                chunks += 1;
                step.starts[chunks] = (n - RUNNING) as i32;
            }
        }
        step.starts[chunks + 1..].fill((n - RUNNING) as i32);
        step
    }

    /// The arrays in the order in which they lie in memory; the results are last.
    fn arrays(&self) -> [&[u8]; 10] {
        fn bytes<T>(values: &[T]) -> &[u8] {
            unsafe { std::slice::from_raw_parts(values.as_ptr() as *const u8, std::mem::size_of_val(values)) }
        }
        [
            bytes(&self.q), bytes(&self.k), bytes(&self.v), bytes(&self.slots), bytes(&self.table),
            bytes(&self.lengths), bytes(&self.prompt_table), bytes(&self.prompt_lengths), bytes(&self.starts),
            bytes(&self.o),
        ]
    }
}

/// What computes a step.
trait Cache {
    fn run(&mut self, step: &mut Step);
}

/// The graph by loops of the host, which know tables, lengths and slots alone.
struct HostCache {
    k: Vec<u16>,
    v: Vec<u16>,
}

impl Cache for HostCache {
    fn run(&mut self, step: &mut Step) {
        for n in 0..STEP_ROWS {
            if step.slots[n] >= 0 {
                let at = step.slots[n] as usize * KV_WIDTH;
                self.k[at..at + KV_WIDTH].copy_from_slice(row(&step.k, KV_WIDTH, n));
                self.v[at..at + KV_WIDTH].copy_from_slice(row(&step.v, KV_WIDTH, n));
            }
        }
        for b in 0..RUNNING {
            let table = row(&step.table, TABLE_COLUMNS, b).to_vec();
            self.attend_row(step, b, &table, step.lengths[b] as usize);
        }
        for b in 0..PROMPTS {
            let table = row(&step.prompt_table, TABLE_COLUMNS, b).to_vec();
            let (begin, end) = (step.starts[b] as usize, step.starts[b + 1] as usize);
            for i in begin..end {
                self.attend_row(step, RUNNING + i, &table, step.prompt_lengths[b] as usize - (end - 1 - i));
            }
        }
    }
}

impl HostCache {
    fn attend_row(&self, step: &mut Step, n: usize, table: &[i32], keys: usize) {
        let slot = |j: usize| table[j / PAGE_ROWS] as usize * PAGE_ROWS + j % PAGE_ROWS;
        let k: Vec<&[u16]> = (0..keys).map(|j| row(&self.k, KV_WIDTH, slot(j))).collect();
        let v: Vec<&[u16]> = (0..keys).map(|j| row(&self.v, KV_WIDTH, slot(j))).collect();
        let o = attend(row(&step.q, Q_WIDTH, n), &k, &v);
        for (to, from) in step.o[n * Q_WIDTH..(n + 1) * Q_WIDTH].iter_mut().zip(o) {
            *to = to_f16(from as f32);
        }
    }
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

/// Where each array of a step begins in one block of memory, and the end.
fn layout() -> Vec<u64> {
    let mut places = vec![0];
    for array in Step::empty().arrays() {
        places.push(places[places.len() - 1] + (array.len() as u64 + 255) / 256 * 256);
    }
    places
}

/// The calls of a step, for arrays in memory at these addresses.
fn calls(bundles: &[String], step: u64, k_pool: u64, v_pool: u64) -> Vec<Call> {
    let at: Vec<u64> = layout().iter().map(|place| step + place).collect();
    let pool = |address| dense(address, F16, &[PAGES, PAGE_ROWS, KEY_HEADS, DIM]);
    let scale = || Value::Scalar(1.0 / (DIM as f32).sqrt());
    // Queries of packed sequences are [1, heads, rows, D]; here a row has its heads side by side.
    let rows_of_chunks = |array: u64| Value::Array {
        address: array + (2 * RUNNING * Q_WIDTH) as u64,
        element: F16,
        extents: vec![1, HEADS as i64, CHUNK_ROWS as i64, DIM as i64],
        strides: vec![(CHUNK_ROWS * Q_WIDTH) as i64, DIM as i64, Q_WIDTH as i64, 1],
    };
    let append = Call::new(&bundles[0], KIND_APPEND, 0, vec![
        ("k", dense(at[1], F16, &[STEP_ROWS, KEY_HEADS, DIM])),
        ("v", dense(at[2], F16, &[STEP_ROWS, KEY_HEADS, DIM])),
        ("k_pages", pool(k_pool)),
        ("v_pages", pool(v_pool)),
        ("slots", dense(at[3], I32, &[STEP_ROWS])),
    ]);
    let decode = Call::new(&bundles[1], KIND_CACHED, 0, vec![
        ("q", dense(at[0], F16, &[RUNNING, HEADS, 1, DIM])),
        ("k", pool(k_pool)),
        ("v", pool(v_pool)),
        ("o", dense(at[9], F16, &[RUNNING, HEADS, 1, DIM])),
        ("block_table", dense(at[4], I32, &[RUNNING, TABLE_COLUMNS])),
        ("seq_lens", dense(at[5], I32, &[RUNNING])),
        ("scale", scale()),
    ]);
    let prefill = Call::new(&bundles[2], KIND_CACHED, CAUSAL_BOTTOM_RIGHT, vec![
        ("q", rows_of_chunks(at[0])),
        ("k", pool(k_pool)),
        ("v", pool(v_pool)),
        ("o", rows_of_chunks(at[9])),
        ("cu_seqlens_q", dense(at[8], I32, &[PROMPTS + 1])),
        ("block_table", dense(at[6], I32, &[PROMPTS, TABLE_COLUMNS])),
        ("seq_lens", dense(at[7], I32, &[PROMPTS])),
        ("scale", scale()),
    ]);
    vec![append, decode, prefill]
}

/// The workspace that all calls share, as they run one after the other: it depends on extents, not
/// on lengths.
fn workspace_of(calls: &[Call]) -> u64 {
    calls.iter().map(Call::workspace).max().unwrap()
}

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Functions of the driver that are the application's own calls, and `$init`, which begins.
macro_rules! driver {
    ($($name:ident = $symbol:literal ($($type:ty),*);)*) => {
        struct Driver { $($name: unsafe extern "C" fn($($type),*) -> c_int,)* }
        impl Driver {
            fn find() -> Result<Driver, String> {
                const NOW: c_int = 2;
                let symbol = |library, name: &str| -> Result<*mut c_void, String> {
                    let text = CString::new(name).unwrap();
                    let found = unsafe { dlsym(library, text.as_ptr()) };
                    if found.is_null() { Err(format!("the driver has no {name}")) } else { Ok(found) }
                };
                let path = CString::new("libcuda.so.1").unwrap();
                let library = unsafe { dlopen(path.as_ptr(), NOW) };
                if library.is_null() {
                    return Err("libcuda.so.1 cannot be opened".to_string());
                }
                Ok(Driver { $($name: unsafe { std::mem::transmute(symbol(library, $symbol)?) },)* })
            }
        }
    };
}

driver! {
    init = "cuInit" (c_uint);
    device_get = "cuDeviceGet" (*mut c_int, c_int);
    device_name = "cuDeviceGetName" (*mut c_char, c_int, c_int);
    retain = "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    push = "cuCtxPushCurrent_v2" (Handle);
    alloc = "cuMemAlloc_v2" (*mut u64, usize);
    fill = "cuMemsetD32Async" (u64, c_uint, usize, Handle);
    upload = "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, Handle);
    download = "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, Handle);
    stream_create = "cuStreamCreate" (*mut Handle, c_uint);
    synchronize = "cuStreamSynchronize" (Handle);
    begin_capture = "cuStreamBeginCapture_v2" (Handle, c_int);
    end_capture = "cuStreamEndCapture" (Handle, *mut Handle);
    instantiate = "cuGraphInstantiateWithFlags" (*mut Handle, Handle, u64);
    launch = "cuGraphLaunch" (Handle, Handle);
}

fn check_cuda(what: &str, code: c_int) {
    if code != 0 {
        fail(&format!("{what} of the driver returned {code}"));
    }
}

/// The driver and the name of device 0, whose context is now current.
fn find_device() -> Result<(Driver, String), String> {
    let driver = Driver::find()?;
    let (mut device, mut context, mut name) = (0, null_mut(), [0 as c_char; 100]);
    unsafe {
        for (what, code) in [("cuInit", (driver.init)(0)), ("cuDeviceGet", (driver.device_get)(&mut device, 0))] {
            if code != 0 {
                return Err(format!("{what} of the driver returned {code}"));
            }
        }
        check_cuda("cuDeviceGetName", (driver.device_name)(name.as_mut_ptr(), 100, device));
        check_cuda("cuDevicePrimaryCtxRetain", (driver.retain)(&mut context, device));
        check_cuda("cuCtxPushCurrent", (driver.push)(context));
    }
    Ok((driver, text_of(name.as_ptr())))
}

/// The memory and the graph live until the program ends.
struct DeviceCache {
    driver: Driver,
    stream: Handle,
    graph: Handle,
    staging: Vec<u8>,
    step: u64,
    places: Vec<u64>,
    seconds: f64, // of copies and graphs
    _calls: Vec<Call>, // graphs launch code that plans hold
}

impl DeviceCache {
    fn new(driver: Driver, bundles: &[String]) -> DeviceCache {
        const NON_BLOCKING: c_uint = 1;
        const CAPTURE_THREAD_LOCAL: c_int = 1;
        let places = layout();
        let pool = 2 * PAGES * PAGE_ROWS * KV_WIDTH;
        let (mut stream, mut captured, mut graph) = (null_mut(), null_mut(), null_mut());
        check_cuda("cuStreamCreate", unsafe { (driver.stream_create)(&mut stream, NON_BLOCKING) });
        let alloc = |bytes: usize| {
            let mut address = 0;
            unsafe {
                check_cuda("cuMemAlloc", (driver.alloc)(&mut address, bytes));
                // NaN: what no key was written to is not read.
                check_cuda("cuMemsetD32Async", (driver.fill)(address, 0xffff_ffff, bytes / 4, stream));
            }
            address
        };
        let (step, k_pool, v_pool) = (alloc(places[10] as usize), alloc(pool), alloc(pool));
        let calls = calls(bundles, step, k_pool, v_pool);
        for call in &calls {
            check(unsafe { tilewright_attention_prepare(call.plan, 0) });
        }
        let bytes = workspace_of(&calls);
        let workspace = if bytes > 0 { alloc(bytes as usize) } else { 0 }; // aligned to 256 bytes
        unsafe {
            check_cuda("cuStreamSynchronize", (driver.synchronize)(stream));
            check_cuda("cuStreamBeginCapture", (driver.begin_capture)(stream, CAPTURE_THREAD_LOCAL));
            for call in &calls {
                call.run(workspace, bytes, stream);
            }
            check_cuda("cuStreamEndCapture", (driver.end_capture)(stream, &mut captured));
            check_cuda("cuGraphInstantiate", (driver.instantiate)(&mut graph, captured, 0));
        }
        let staging = vec![0; places[9] as usize];
        DeviceCache { driver, stream, graph, staging, step, places, seconds: 0.0, _calls: calls }
    }
}

impl Cache for DeviceCache {
    fn run(&mut self, step: &mut Step) {
        for (array, &place) in step.arrays()[..9].iter().zip(&self.places) {
            self.staging[place as usize..][..array.len()].copy_from_slice(array);
        }
        let begin = std::time::Instant::now();
        let (driver, stream, o) = (&self.driver, self.stream, &mut step.o);
        unsafe {
            let from = self.staging.as_ptr() as *const c_void;
            check_cuda("cuMemcpyHtoDAsync", (driver.upload)(self.step, from, self.staging.len(), stream));
            check_cuda("cuGraphLaunch", (driver.launch)(self.graph, stream));
            let (to, from) = (o.as_mut_ptr() as *mut c_void, self.step + self.places[9]);
            check_cuda("cuMemcpyDtoHAsync", (driver.download)(to, from, 2 * o.len(), stream));
            check_cuda("cuStreamSynchronize", (driver.synchronize)(stream));
        }
        self.seconds += begin.elapsed().as_secs_f64();
    }
}

//===----------------------------------------------------------------------===//
// The engine
//===----------------------------------------------------------------------===//

struct Served {
    rows: usize,
    generated: usize,
    wrong: usize,
}

/// Serves all requests, and checks each row that `cache` computes.
fn serve(model: &Model, cache: &mut dyn Cache) -> Served {
    // P and O are rounded to f16, which has 11 significant bits; values are averages of N(0, 1).
    const ALLOWED: f64 = 4e-3;
    let mut random = Random(2);
    let mut sequences: Vec<Sequence> = Vec::new();
    for prompt in [100, 1, 17, 16, 150, 33, 5, 64, 128, 47] {
        let tokens = (0..prompt).map(|_| random.below(VOCABULARY)).collect();
        let wanted = prompt + 6 + random.below(30);
        sequences.push(Sequence { tokens, prompt, wanted, ..Sequence::default() });
    }
    let mut allocator = PageAllocator { unused: (0..PAGES as i32).rev().collect(), reserved: 0 };
    let (mut active, mut waiting): (Vec<usize>, usize) = (Vec::new(), 0);
    let (mut steps, mut mixed, mut worst) = (0, 0, 0f64);
    let mut served = Served { rows: 0, generated: 0, wrong: 0 };
    while waiting < sequences.len() || !active.is_empty() {
        while waiting < sequences.len() && active.len() < RUNNING && allocator.reserve(&sequences[waiting]) {
            active.push(waiting);
            waiting += 1;
        }
        let mut step = Step::new(model, &mut allocator, &mut sequences, &active);
        cache.run(&mut step);
        steps += 1;
        mixed += usize::from(step.lengths[0] > 0 && step.prompt_lengths[0] > 0);
        for n in 0..STEP_ROWS {
            let (number, position) = match step.rows[n] {
                Some(place) => place,
                None => continue,
            };
            let tokens = &mut sequences[number].tokens;
            let of_tokens = |table| tokens[..=position].iter().map(|&token| row(table, KV_WIDTH, token)).collect();
            let (keys, values): (Vec<&[u16]>, Vec<&[u16]>) = (of_tokens(&model.k), of_tokens(&model.v));
            let expected = attend(row(&model.q, Q_WIDTH, tokens[position]), &keys, &values);
            let o: Vec<f64> = row(&step.o, Q_WIDTH, n).iter().map(|&x| f64::from(from_f16(x))).collect();
            let errors = o.iter().zip(&expected).map(|(x, y)| (x - y).abs());
            let error = errors.fold(0.0, |a: f64, b| if b.is_nan() { f64::INFINITY } else { a.max(b) });
            served.rows += 1;
            worst = worst.max(error);
            served.wrong += usize::from(error > ALLOWED);
            if position + 1 < tokens.len() {
                continue; // within a prompt
            }
            // The token is right if no other one is more similar, but for the error of results.
            let (next, best) = (model.most_similar(&o), model.most_similar(&expected));
            let pairs = row(&model.q, Q_WIDTH, next).iter().zip(row(&model.q, Q_WIDTH, best));
            let slack: f64 = pairs.map(|(&x, &y)| ALLOWED * f64::from((from_f16(x) - from_f16(y)).abs())).sum();
            let falls_short = model.similarity(best, &expected) - model.similarity(next, &expected);
            served.wrong += usize::from(falls_short > slack);
            tokens.push(next);
            served.generated += 1;
        }
        active.retain(|&number| {
            let own = &mut sequences[number];
            let goes_on = own.tokens.len() < own.wanted;
            if !goes_on {
                allocator.release(own);
            }
            goes_on
        });
    }
    if allocator.unused.len() != PAGES || allocator.reserved != 0 {
        fail("pages are missing at the end");
    }
    println!(
        "{} requests in {steps} steps, {mixed} of them mixed: {} rows, {} new tokens, greatest error {worst:.1e} \
         ({ALLOWED:.1e} allowed): {}",
        sequences.len(), served.rows, served.generated, if served.wrong == 0 { "ok" } else { "WRONG" }
    );
    served
}

fn main() {
    // The layout that tilewright.h has; a description of another size would be rejected.
    assert_eq!(std::mem::size_of::<AttentionDesc>(), 184);
    let bundles: Vec<String> = std::env::args().skip(1).collect();
    if bundles.len() != 3 {
        fail("expected the names of three bundles: append, decode, prefill");
    }
    let model = Model::new();
    let served = match find_device() {
        Ok((driver, name)) => {
            println!("{name}");
            let mut cache = DeviceCache::new(driver, &bundles);
            let served = serve(&model, &mut cache);
            let (rows, tokens) = (served.rows as f64 / cache.seconds, served.generated as f64 / cache.seconds);
            println!("in a graph: {rows:.0} rows per second, {tokens:.0} new tokens per second");
            served
        }
        Err(reason) => {
            let calls = calls(&bundles, 0x10000, 0x100000, 0x200000);
            for call in &calls {
                check(unsafe { tilewright_attention_check_support(call.plan, 8, 0, 0) });
            }
            println!("workspace of {} bytes, for any lengths", workspace_of(&calls));
            let pool = vec![0; PAGES * PAGE_ROWS * KV_WIDTH];
            let served = serve(&model, &mut HostCache { k: pool.clone(), v: pool });
            println!("serve: SKIPPED the graph, there is no GPU: {reason}");
            served
        }
    };
    std::process::exit(if served.wrong == 0 { 0 } else { 1 });
}
