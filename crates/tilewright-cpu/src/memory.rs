//! The bytes that a run works on, shared by its workers.

use tilewright::kernel::tile::{Elements, ElementsMut, Factor, Machine, Product};
use tilewright::task::BufferId;
use tilewright::tensor::DType;

use crate::pool::Pool;

/// A buffer of a run.
#[derive(Clone, Copy)]
pub struct Bytes {
    /// The first byte.
    pub start: *mut u8,
    /// How many elements there are.
    pub elements: usize,
    /// The element type.
    pub dtype: DType,
}

/// All buffers of a run, by id. Workers read and write them at the same time; the program's events order accesses to
/// one element of which one is a write, which the task verifier has proved.
pub struct Buffers(pub Vec<Bytes>);

// SAFETY: the pointers stay valid for the run, and accesses are ordered as the type says.
unsafe impl Send for Buffers {}
// SAFETY: as above.
unsafe impl Sync for Buffers {}

impl Bytes {
    /// The address of element `position`, after a check that it is there.
    fn at<T>(&self, position: usize) -> *mut T {
        assert!(position < self.elements, "element {position} of {}", self.elements);
        self.start.cast::<T>().wrapping_add(position)
    }

    /// Checks that `count` elements from `start` by `step` are there.
    fn check(&self, start: usize, step: isize, count: usize) {
        let last = (count as isize - 1).checked_mul(step).and_then(|way| start.checked_add_signed(way));
        let inside = start < self.elements && last.is_some_and(|last| last < self.elements);
        assert!(count == 0 || inside, "elements {start} by {step}, {count} of them, of {}", self.elements);
    }

    fn read<T: Copy, U>(&self, start: usize, step: isize, out: &mut [U], get: impl Fn(T) -> U) {
        self.check(start, step, out.len());
        let first = self.start.cast::<T>().wrapping_add(start);
        for (k, slot) in out.iter_mut().enumerate() {
            // SAFETY: `check` has shown that each element lies in the buffer, whose elements are of type `T`.
            *slot = get(unsafe { first.wrapping_offset(k as isize * step).read_unaligned() });
        }
    }

    fn write<T: Copy, U: Copy>(&self, start: usize, step: isize, values: &[U], make: impl Fn(U) -> T) {
        self.check(start, step, values.len());
        let first = self.start.cast::<T>().wrapping_add(start);
        for (k, &value) in values.iter().enumerate() {
            // SAFETY: as in `read`; buffers that are written are the run's own or mutably borrowed by it.
            unsafe { first.wrapping_offset(k as isize * step).write_unaligned(make(value)) };
        }
    }
}

/// One worker's view of the buffers, with scratch space for products.
pub struct Worker<'a> {
    /// The buffers.
    pub buffers: &'a Buffers,
    /// Scratch for factors and sum, in singles.
    single: [Vec<f32>; 3],
}

impl<'a> Worker<'a> {
    /// A view of the buffers.
    pub fn new(buffers: &'a Buffers) -> Worker<'a> {
        Worker { buffers, single: Default::default() }
    }
}

impl Buffers {
    /// An element of an integer buffer.
    pub fn integer(&self, buffer: BufferId, position: usize) -> i64 {
        let bytes = &self.0[buffer.0 as usize];
        // SAFETY: `at` has checked the position, and elements are of the type that is read.
        unsafe {
            match bytes.dtype {
                DType::Bool => i64::from(bytes.at::<u8>(position).read() != 0),
                DType::U8 => i64::from(bytes.at::<u8>(position).read()),
                DType::I8 => i64::from(bytes.at::<i8>(position).read()),
                DType::I32 => i64::from(bytes.at::<i32>(position).read_unaligned()),
                DType::I64 => bytes.at::<i64>(position).read_unaligned(),
                other => unreachable!("the verifier admits integer tables only, not {other}"),
            }
        }
    }
}

impl Machine for Worker<'_> {
    fn read(&self, buffer: BufferId, start: usize, step: isize, out: ElementsMut<'_>) {
        let bytes = &self.buffers.0[buffer.0 as usize];
        match (bytes.dtype, out) {
            (DType::F32, ElementsMut::Float(out)) => bytes.read(start, step, out, |x: f32| f64::from(x)),
            (DType::F64, ElementsMut::Float(out)) => bytes.read(start, step, out, |x: f64| x),
            (DType::F16, ElementsMut::Float(out)) => bytes.read(start, step, out, |x: half::f16| x.to_f64()),
            (DType::Bf16, ElementsMut::Float(out)) => {
                bytes.read(start, step, out, |x: half::bf16| x.to_f64())
            }
            (DType::U8, ElementsMut::Int(out)) => bytes.read(start, step, out, |x: u8| i64::from(x)),
            (DType::I8, ElementsMut::Int(out)) => bytes.read(start, step, out, |x: i8| i64::from(x)),
            (DType::I32, ElementsMut::Int(out)) => bytes.read(start, step, out, |x: i32| i64::from(x)),
            (DType::I64, ElementsMut::Int(out)) => bytes.read(start, step, out, |x: i64| x),
            (DType::Bool, ElementsMut::Bool(out)) => bytes.read(start, step, out, |x: u8| x != 0),
            (dtype, _) => unreachable!("the verifier admits no tile of another class for {dtype}"),
        }
    }

    fn write(&mut self, buffer: BufferId, start: usize, step: isize, values: Elements<'_>) {
        let bytes = &self.buffers.0[buffer.0 as usize];
        match (bytes.dtype, values) {
            (DType::F32, Elements::Float(values)) => bytes.write(start, step, values, |x| x as f32),
            (DType::F64, Elements::Float(values)) => bytes.write(start, step, values, |x: f64| x),
            (DType::F16, Elements::Float(values)) => bytes.write(start, step, values, half::f16::from_f64),
            (DType::Bf16, Elements::Float(values)) => bytes.write(start, step, values, half::bf16::from_f64),
            (DType::U8, Elements::Int(values)) => bytes.write(start, step, values, |x| x as u8),
            (DType::I8, Elements::Int(values)) => bytes.write(start, step, values, |x| x as i8),
            (DType::I32, Elements::Int(values)) => bytes.write(start, step, values, |x| x as i32),
            (DType::I64, Elements::Int(values)) => bytes.write(start, step, values, |x| x),
            (DType::Bool, Elements::Bool(values)) => bytes.write(start, step, values, u8::from),
            (dtype, _) => unreachable!("the verifier admits no tile of another class for {dtype}"),
        }
    }

    fn integer(&self, buffer: BufferId, position: usize) -> i64 {
        self.buffers.integer(buffer, position)
    }

    fn multiply(&mut self, product: Product<'_>) -> bool {
        let [a, b, c] = product.types;
        let narrow = |dtype| matches!(dtype, DType::F16 | DType::Bf16 | DType::F32);
        if narrow(a) && narrow(b) && c == DType::F32 {
            self.multiply_single(product);
            true
        } else if [a, b, c] == [DType::F64; 3] {
            multiply_double(product);
            true
        } else {
            false
        }
    }
}

impl Worker<'_> {
    /// The product in singles: factors of f16 and bf16 are exact in them.
    fn multiply_single(&mut self, product: Product<'_>) {
        let Product { m, n, k, a, b, c, strides, .. } = product;
        if m == 0 || n == 0 || k == 0 {
            return;
        }
        let [left, right, sum] = &mut self.single;
        pack(left, a, m, k);
        pack(right, b, n, k);
        sum.clear();
        for row in 0..m {
            sum.extend((0..n).map(|column| c[row * strides[0] + column * strides[1]] as f32));
        }
        let (row, depth) = (n as isize, k as isize);
        // SAFETY: `sum` is m × n row-major, `left` m × k row-major, `right` n × k row-major, read as its transpose.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                sum.as_mut_ptr(),
                1,
                row,
                true,
                left.as_ptr(),
                1,
                depth,
                right.as_ptr(),
                depth,
                1,
                1.0,
                1.0,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
        for row in 0..m {
            for column in 0..n {
                c[row * strides[0] + column * strides[1]] = f64::from(sum[row * n + column]);
            }
        }
    }
}

fn pack(into: &mut Vec<f32>, factor: Factor<'_>, rows: usize, depth: usize) {
    into.clear();
    for row in 0..rows {
        into.extend((0..depth).map(|d| factor.data[row * factor.rows + d * factor.depth] as f32));
    }
}

/// The product in doubles, in place.
fn multiply_double(product: Product<'_>) {
    let Product { m, n, k, a, b, c, strides, .. } = product;
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    let last = |rows: usize, factor: &Factor<'_>| (rows - 1) * factor.rows + (k - 1) * factor.depth;
    assert!(last(m, &a) < a.data.len() && last(n, &b) < b.data.len());
    assert!((m - 1) * strides[0] + (n - 1) * strides[1] < c.len());
    // SAFETY: the largest position of each operand has just been checked; the sum is borrowed mutably.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            strides[1] as isize,
            strides[0] as isize,
            true,
            a.data.as_ptr(),
            a.depth as isize,
            a.rows as isize,
            b.data.as_ptr(),
            b.rows as isize,
            b.depth as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// The number of workers that a pool offers to a run of `tasks` tasks: never more than tasks.
pub fn useful_workers(pool: &Pool, tasks: u64) -> usize {
    usize::try_from(tasks).unwrap_or(usize::MAX).clamp(1, pool.workers())
}
