//! Block sizes: a value beside the program.
//!
//! This is the plain choice, made per loop nest from its kind alone: constants, shrunk where an axis is shorter and
//! where the near tier is smaller than the blocks. The order in which reduced axes accumulate never changes: of
//! several, an axis may be cut into blocks larger than 1 only where all axes inside it are whole.

use crate::target::Target;

/// What a nest is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NestKind {
    /// Nothing is reduced.
    Elementwise,
    /// One value per index tuple is reduced.
    Reduction,
    /// A product of this many factors is summed.
    Contraction {
        /// How many factors.
        factors: usize,
    },
}

/// An axis of a nest, as far as its block size depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestAxis {
    /// The largest extent, where one is known.
    pub limit: Option<i64>,
    /// Whether it is reduced.
    pub reduced: bool,
    /// Whether the extent of another axis depends on the index along it: its blocks have size 1.
    pub pinned: bool,
    /// Which factors of a contraction have it, by position.
    pub factors: Vec<usize>,
}

/// An item that is near at the same time as the others: the positions of its axes, and the bytes of one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearItem {
    /// The axes of the nest that it has.
    pub axes: Vec<usize>,
    /// Bytes of an element.
    pub bytes: u64,
}

/// The constants of the plain schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Rows (the longest axis of the first factor alone), columns (the longest that it lacks) and depth (the last axis
    /// reduced) of a contraction.
    pub contraction: [i64; 3],
    /// The longest axis kept and the last axis reduced by a reduction.
    pub reduction: [i64; 2],
    /// The last axis but one, and the last axis, of an elementwise nest.
    pub elementwise: [i64; 2],
    /// Bytes that the items of a nest may take.
    pub near: u64,
}

impl Plain {
    /// The plain schedule of a target.
    pub fn of(target: &Target) -> Plain {
        let near = target.tiers.first().map_or(u64::MAX, |tier| tier.bytes);
        Plain { contraction: [64, 64, 256], reduction: [64, 256], elementwise: [64, 256], near }
    }

    /// A block size for each axis of a nest, all positive.
    pub fn blocks(&self, kind: NestKind, axes: &[NestAxis], items: &[NearItem]) -> Vec<i64> {
        let mut blocks = self.wanted(kind, axes);
        for (block, axis) in blocks.iter_mut().zip(axes) {
            *block = match axis.limit {
                _ if axis.pinned => 1,
                Some(limit) => (*block).clamp(1, limit.max(1)),
                None => (*block).max(1),
            };
        }
        while bytes(&blocks, items) > self.near {
            let Some(largest) = blocks.iter_mut().max().filter(|block| **block > 1) else { break };
            *largest /= 2;
        }
        keep_order(&mut blocks, axes);
        blocks
    }

    /// Cuts the last reduced axis.
    fn depth(axes: &[NestAxis], blocks: &mut [i64], size: i64) {
        if let Some((_, block)) = axes.iter().zip(blocks).rev().find(|(axis, _)| axis.reduced) {
            *block = size;
        }
    }

    fn wanted(&self, kind: NestKind, axes: &[NestAxis]) -> Vec<i64> {
        let mut blocks = vec![1; axes.len()];
        // Of the axes that would do, the longest, and of those the last.
        let mut set = |wanted: &dyn Fn(&NestAxis) -> bool, size: i64| {
            let fitting = axes.iter().zip(&mut blocks).filter(|(axis, _)| wanted(axis) && !axis.pinned);
            if let Some((_, block)) = fitting.max_by_key(|(axis, _)| axis.limit.unwrap_or(i64::MAX)) {
                *block = size;
            }
        };
        match kind {
            NestKind::Elementwise => {
                for (block, size) in blocks.iter_mut().rev().zip(self.elementwise.iter().rev()) {
                    *block = *size;
                }
            }
            NestKind::Reduction => {
                set(&|axis| !axis.reduced, self.reduction[0]);
                Plain::depth(axes, &mut blocks, self.reduction[1]);
            }
            NestKind::Contraction { factors } => {
                let own = |axis: &NestAxis| !axis.reduced && axis.factors.len() < factors.max(2);
                set(&|axis| own(axis) && axis.factors.contains(&0), self.contraction[0]);
                set(&|axis| own(axis) && !axis.factors.contains(&0), self.contraction[1]);
                Plain::depth(axes, &mut blocks, self.contraction[2]);
            }
        }
        blocks
    }
}

fn bytes(blocks: &[i64], items: &[NearItem]) -> u64 {
    let of = |item: &NearItem| {
        let elements = item.axes.iter().filter_map(|axis| blocks.get(*axis));
        elements.fold(item.bytes, |bytes, block| bytes.saturating_mul(block.unsigned_abs()))
    };
    items.iter().fold(0, |sum, item| sum.saturating_add(of(item)))
}

/// Sets reduced axes to blocks of 1 outside the innermost one that is not whole.
fn keep_order(blocks: &mut [i64], axes: &[NestAxis]) {
    let mut whole = true;
    for (block, axis) in blocks.iter_mut().zip(axes).rev().filter(|(_, axis)| axis.reduced) {
        if !whole {
            *block = 1;
        }
        whole = whole && axis.limit.is_some_and(|limit| limit <= *block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(limit: Option<i64>, reduced: bool, factors: &[usize]) -> NestAxis {
        NestAxis { limit, reduced, pinned: false, factors: factors.to_vec() }
    }

    #[test]
    fn constants_by_kind() {
        let plain = Plain::of(&Target::portable());
        let kept = |limit| axis(limit, false, &[]);
        let three = [kept(None), kept(None), kept(Some(7))];
        assert_eq!(plain.blocks(NestKind::Elementwise, &three, &[]), [1, 64, 7]);
        let row = [kept(None), axis(None, true, &[])];
        assert_eq!(plain.blocks(NestKind::Reduction, &row, &[]), [64, 256]);
        let product = [
            axis(None, false, &[0, 1]),
            axis(None, false, &[0]),
            axis(Some(0), false, &[1]),
            axis(None, true, &[0, 1]),
        ];
        assert_eq!(plain.blocks(NestKind::Contraction { factors: 2 }, &product, &[]), [1, 64, 1, 256]);
    }

    #[test]
    fn order_is_kept() {
        let mut blocks = [8, 4, 3];
        let axes = [axis(None, true, &[]), axis(Some(4), true, &[]), axis(Some(3), true, &[])];
        keep_order(&mut blocks, &axes);
        assert_eq!(blocks, [8, 4, 3]);
        let mut blocks = [8, 4, 2];
        keep_order(&mut blocks, &axes);
        assert_eq!(blocks, [1, 1, 2]);
    }

    #[test]
    fn blocks_fit_the_near_tier() {
        let plain = Plain { near: 1 << 14, ..Plain::of(&Target::portable()) };
        let axes = [axis(None, false, &[]), axis(None, false, &[])];
        let items = [NearItem { axes: vec![0, 1], bytes: 4 }, NearItem { axes: vec![0, 1], bytes: 4 }];
        let blocks = plain.blocks(NestKind::Elementwise, &axes, &items);
        assert!(bytes(&blocks, &items) <= 1 << 14 && blocks.iter().product::<i64>() >= 1024, "{blocks:?}");
    }
}
