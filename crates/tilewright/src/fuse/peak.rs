//! How much is near at once.

use crate::block::ir::{Map, Node, Value, ValueId, ValueType};
use std::collections::BTreeMap;

/// The most bytes that the items of a map take at one time: each from where it is defined to its last use, through all of
/// a map that uses it inside.
pub(super) fn bytes(map: &Map, values: &[Value]) -> u64 {
    let mut walk = Walk { clock: 0, lives: BTreeMap::new() };
    walk.nodes(&map.body);
    let size = |id: &ValueId| match &values[id.0 as usize].ty {
        ValueType::Item(ty) => {
            let sizes = ty.ranges.iter().map(|range| range.size.unsigned_abs());
            sizes.fold(ty.dtype.bytes() as u64, u64::saturating_mul)
        }
        ValueType::Tensor { .. } => 0,
    };
    let at = |time: u32| {
        let alive = walk.lives.iter().filter(|(_, (first, last))| (*first..=*last).contains(&time));
        alive.fold(0u64, |sum, (id, _)| sum.saturating_add(size(id)))
    };
    (0..=walk.clock).map(at).max().unwrap_or(0)
}

struct Walk {
    clock: u32,
    /// The first and the last time at which an item is alive.
    lives: BTreeMap<ValueId, (u32, u32)>,
}

impl Walk {
    fn touch(&mut self, id: ValueId) {
        let clock = self.clock;
        self.lives.entry(id).or_insert((clock, clock)).1 = clock;
    }

    /// Walks nodes; gives what they name.
    fn nodes(&mut self, nodes: &[Node]) -> Vec<ValueId> {
        let mut named = Vec::new();
        for node in nodes {
            self.clock += 1;
            let mut own = Vec::new();
            if let Node::Map(map) = node {
                let starts = map.carries.iter().flat_map(|carry| carry.from.iter().chain(&carry.state));
                own.extend(starts.copied());
                own.iter().for_each(|id| self.touch(*id));
                own.extend(self.nodes(&map.body));
                self.clock += 1;
                let ends = map.carries.iter().flat_map(|carry| carry.next.iter().chain(&carry.result));
                own.extend(ends.copied());
            } else {
                node.clone().for_each_value(&mut |id| own.push(*id));
            }
            own.iter().for_each(|id| self.touch(*id));
            named.extend(own);
        }
        named
    }
}
