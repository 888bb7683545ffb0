//! Register-tiled products over packed panels, as machine programs, and a driver around them.
//!
//! A *unit* is 4 bytes: one f32, two bf16, two i16 or four bytes along the depth. A panel holds, for each unit of depth, those
//! of its rows (of `a`) or columns (of `b`) one behind another, so that every format has the same addresses and differs in one
//! instruction. Depth is cut into blocks; the sum over a block starts from 0 and is then added to `c`: two levels of
//! accumulation, so that a long sum loses no more than its blocks do.
//!
//! | file | holds |
//! | --- | --- |
//! | `format.rs` | what a unit is, and which format a level multiplies an element type in |
//! | `tile.rs` | the register tile and the loops over panels, for any builder |
//! | `amx.rs` | the same for AMX tiles |
//! | `pack.rs` | panels from matrices |
//! | `driver.rs` | cache blocks, and whole products |

mod amx;
mod driver;
mod format;
mod pack;
mod tile;

#[cfg(test)]
mod tests;

pub use amx::{AMX_TILE, AmxContext, amx_program, pack_amx};
pub use driver::{Blocking, PackedColumns, PackedRows, Product, ProductError};
pub use format::{Element, Format, Tile};
pub use pack::{Matrix, pack_panel};
pub use tile::{Operands, PanelContext, panels, program, tile};
