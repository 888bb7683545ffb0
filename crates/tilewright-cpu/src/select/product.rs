//! Products: register tiles of 4 by 4 sums, each a vector along the depth.
//!
//! Both factors are in scratch with the depth as their inner label. A step loads 4 + 4 vectors and does 16 multiply-adds;
//! at the end of a register tile the lanes of each sum are added in a fixed tree. Padding rows of a factor are read and
//! their sums dropped.

use iced_x86::code_asm::*;
use tilewright::kernel::{Mask, TileId};
use tilewright::tensor::DType;

use super::emit::Lack;
use super::functions::ZMM;
use super::{Selector, plan};

/// Rows and columns of a register tile.
pub const ROWS: usize = 4;

impl Selector<'_> {
    /// `c[m, n] += Σ_k a[m, k] · b[n, k]`.
    pub fn product(&mut self, ids: [TileId; 3], mask: &Mask) -> Result<(), Lack> {
        if !mask.is_always() {
            return Err(Lack("a product under a mask".into()));
        }
        let [a, b, c] = ids.map(|id| self.tile(id));
        if c.dtype != DType::F32 || [a, b].iter().any(|tile| tile.dtype == DType::Bool) {
            return Err(Lack(format!("a product of {} and {} into {}", a.dtype, b.dtype, c.dtype)));
        }
        // The one label of each part whose size is not 1, in each of its two tiles.
        let mut out = self.e.a.create_label();
        let mut counts = [None; 3];
        let mut axes = [[None; 3]; 3];
        for (t, tile) in [a, b, c].into_iter().enumerate() {
            let ranges = self.ranges(tile, out)?;
            for (axis, range) in tile.ranges.iter().enumerate() {
                let has = [a, b, c].map(|other| other.ranges.iter().find(|r| r.label == range.label));
                if has.into_iter().flatten().any(|other| other != range) {
                    return Err(Lack(format!("ranges of `{}` that differ", range.label)));
                }
                let part = match has.map(|range| range.is_some()) {
                    [true, false, true] => 0,
                    [false, true, true] => 1,
                    [true, true, false] => 2,
                    _ if range.size == 1 => continue,
                    _ => return Err(Lack(format!("a product along `{}`", range.label))),
                };
                if range.size == 1 {
                    continue;
                }
                if axes[part][t].is_some() {
                    return Err(Lack("a product over several labels of one part".into()));
                }
                axes[part][t] = Some(axis);
                counts[part] = Some(ranges[axis].1);
            }
        }
        let stride = |part: usize, t: usize| {
            let axis: Option<usize> = axes[part][t];
            axis.map_or(0, |axis| self.places[ids[t].0 as usize].strides[axis])
        };
        let depth = counts[2].ok_or_else(|| Lack("a product of depth 1".into()))?;
        if stride(2, 0) != 1 || stride(2, 1) != 1 {
            return Err(Lack("a factor whose depth is not its inner label".into()));
        }
        if counts[1].is_some() && stride(1, 2) != 1 {
            return Err(Lack("a sum whose columns are not its inner label".into()));
        }
        let word = |elements: i64| i32::try_from(elements * 4).map_err(|_| Lack("a tile too large".into()));
        let (row_a, row_b, row_c) = (word(stride(0, 0))?, word(stride(1, 1))?, word(stride(0, 2))?);
        let start = |t: usize| i32::try_from(self.places[ids[t].0 as usize].offset);
        let (Ok(from_a), Ok(from_b), Ok(from_c)) = (start(0), start(1), start(2)) else {
            return Err(Lack("scratch too large".into()));
        };
        debug_assert!(plan::inner(c).is_some() || c.ranges.is_empty());

        // m and n: what is left, in slots; pointers to the row of each.
        let (m_left, n_left) = (self.e.slot()?, self.e.slot()?);
        let (at_a, at_b, at_c, at_row) = (self.e.slot()?, self.e.slot()?, self.e.slot()?, self.e.slot()?);
        let x = &mut self.e.a;
        let load_count = |x: &mut CodeAssembler, count: Option<super::emit::Slot>| match count {
            Some(count) => x.mov(rax, count.at()),
            None => x.mov(rax, 1i64),
        };
        load_count(x, counts[0])?;
        x.mov(m_left.at(), rax)?;
        x.lea(rax, qword_ptr(r15 + from_a))?;
        x.mov(at_a.at(), rax)?;
        x.lea(rax, qword_ptr(r15 + from_c))?;
        x.mov(at_row.at(), rax)?;
        let (mut rows, mut columns) = (x.create_label(), x.create_label());
        x.set_label(&mut rows)?;
        load_count(x, counts[1])?;
        x.mov(n_left.at(), rax)?;
        x.lea(rax, qword_ptr(r15 + from_b))?;
        x.mov(at_b.at(), rax)?;
        x.mov(rax, at_row.at())?;
        x.mov(at_c.at(), rax)?;
        x.set_label(&mut columns)?;

        // Sums 0..16, a 16..20, b in 20.
        for sum in &ZMM[..16] {
            x.vpxord(*sum, *sum, *sum)?;
        }
        x.mov(rsi, at_a.at())?;
        x.mov(rdi, at_b.at())?;
        x.mov(rdx, depth.at())?;
        x.xor(ebx, ebx)?;
        let (mut steps, mut rest, mut summed) = (x.create_label(), x.create_label(), x.create_label());
        x.set_label(&mut steps)?;
        x.lea(rax, qword_ptr(rbx + 16))?;
        x.cmp(rax, rdx)?;
        x.jg(rest)?;
        step(x, row_a, row_b, false)?;
        x.mov(rbx, rax)?;
        x.jmp(steps)?;
        x.set_label(&mut rest)?;
        x.mov(rcx, rdx)?;
        x.sub(rcx, rbx)?;
        x.jle(summed)?;
        x.mov(eax, -1)?;
        x.bzhi(rax, rax, rcx)?;
        x.kmovw(k1, eax)?;
        step(x, row_a, row_b, true)?;
        x.set_label(&mut summed)?;

        // k1: the columns that are there.
        x.mov(rax, n_left.at())?;
        x.mov(ecx, ROWS as i32)?;
        x.cmp(rax, rcx)?;
        x.cmovg(rax, rcx)?;
        x.mov(ecx, -1)?;
        x.bzhi(rax, rcx, rax)?;
        x.kmovw(k1, eax)?;
        x.mov(rdi, at_c.at())?;
        let mut stored = x.create_label();
        for row in 0..ROWS {
            if row > 0 {
                x.cmp(m_left.at(), row as i32)?;
                x.jle(stored)?;
            }
            let [p, q, r, s] = [0, 1, 2, 3].map(|column| ZMM[row * ROWS + column]);
            let (t, u) = (zmm20, zmm21);
            x.vunpcklps(t, p, q)?;
            x.vunpckhps(p, p, q)?;
            x.vaddps(t, t, p)?;
            x.vunpcklps(u, r, s)?;
            x.vunpckhps(r, r, s)?;
            x.vaddps(u, u, r)?;
            x.vunpcklpd(p, t, u)?;
            x.vunpckhpd(q, t, u)?;
            x.vaddps(t, p, q)?;
            x.vextractf64x4(ymm21, t, 1)?;
            x.vaddps(ymm20, ymm20, ymm21)?;
            x.vextractf32x4(xmm21, ymm20, 1)?;
            x.vaddps(xmm20, xmm20, xmm21)?;
            let place = rdi + row_c * row as i32;
            x.vmovups(xmm21.k1().z(), xmmword_ptr(place))?;
            x.vaddps(xmm20, xmm21, xmm20)?;
            x.vmovups(xmmword_ptr(place).k1(), xmm20)?;
        }
        x.set_label(&mut stored)?;

        let rows_i = ROWS as i32;
        x.add(at_b.at(), row_b * rows_i)?;
        x.add(at_c.at(), 4 * rows_i)?;
        x.sub(n_left.at(), rows_i)?;
        x.jg(columns)?;
        x.add(at_a.at(), row_a * rows_i)?;
        x.add(at_row.at(), row_c * rows_i)?;
        x.sub(m_left.at(), rows_i)?;
        x.jg(rows)?;
        x.set_label(&mut out)?;
        Ok(x.nop()?)
    }
}

/// 16 elements of the depth from `rbx` on, or those of `k1`.
fn step(x: &mut CodeAssembler, row_a: i32, row_b: i32, masked: bool) -> Result<(), Lack> {
    let on = |register: AsmRegisterZmm| if masked { register.k1().z() } else { register };
    for row in 0..ROWS {
        x.vmovups(on(ZMM[16 + row]), zmmword_ptr(rsi + rbx * 4 + row_a * row as i32))?;
    }
    for column in 0..ROWS {
        x.vmovups(on(ZMM[20 + column]), zmmword_ptr(rdi + rbx * 4 + row_b * column as i32))?;
        for row in 0..ROWS {
            x.vfmadd231ps(ZMM[row * ROWS + column], ZMM[16 + row], ZMM[20 + column])?;
        }
    }
    Ok(())
}
