//! Where buffers live: the caller's memory for parameters and results, an arena for the rest.

use super::flatten::{Flat, Kind};
use crate::dim::Dim;
use crate::error::Error;
use crate::task::ir::{Buffer, BufferId, BufferKind, Tier};

/// The alignment of temporaries, in bytes.
pub(super) const ALIGNMENT: i64 = 64;

/// The buffers in order (parameters, outputs, temporaries), the new id of each flat one, and the bytes of the arena.
pub(super) fn buffers(flat: &Flat) -> Result<(Vec<Buffer>, Vec<BufferId>, Dim), Error> {
    let class = |kind: Kind| match kind {
        Kind::Param(_) => 0,
        Kind::Output => 1,
        Kind::Own => 2,
    };
    let mut order: Vec<usize> = (0..flat.buffers.len()).collect();
    // Outputs stand in the order of the results that they hold.
    let result = |at: usize| flat.results.iter().position(|&result| result == at).unwrap_or(usize::MAX);
    order.sort_by_key(|&at| match class(flat.buffers[at].kind) {
        1 => (1, result(at), at),
        class => (class, 0, at),
    });
    let mut ids = vec![BufferId(0); flat.buffers.len()];
    let mut made = Vec::with_capacity(order.len());
    let mut arena = Dim::constant(0);
    for at in order {
        let buffer = &flat.buffers[at];
        ids[at] = BufferId(made.len() as u32);
        let kind = match buffer.kind {
            Kind::Param(kind) => BufferKind::Param(kind),
            Kind::Output => BufferKind::Output,
            Kind::Own => {
                let offset = arena.clone();
                let elements: Dim = buffer.extents.iter().cloned().product();
                let bytes = elements * buffer.dtype.bytes() as i64;
                arena = arena + bytes.ceil_div(ALIGNMENT) * ALIGNMENT;
                BufferKind::Temporary { offset }
            }
        };
        if arena.is_overflow() {
            return Err(Error::Unsupported {
                place: buffer.name.to_string(),
                what: "an arena of so many different sizes".to_string(),
                instead: "use fewer symbols, or repeat the layers".to_string(),
            });
        }
        made.push(Buffer {
            name: buffer.name.clone(),
            kind,
            dtype: buffer.dtype,
            extents: buffer.extents.clone(),
            padded: buffer.padded.clone(),
            tier: Tier::Memory,
        });
    }
    Ok((made, ids, arena))
}
