//! AMX: tiles of 16 rows of 64 bytes. Tile registers are named by the program, never allocated.

use super::integer::{dot_bf16, dot_i8_i8};
use crate::machine::eval::{Fault, Step};
use crate::machine::level::Level;
use crate::machine::row::FlagUse::Keeps;
use crate::machine::row::Meaning::Whole;
use crate::machine::row::Row;
use crate::machine::row::Slot::{Address, Tile};
use iced_x86::Code::*;

fn product(step: &mut Step<'_>, dot: fn(u32, u32, u32) -> u32) -> Result<(), Fault> {
    let (c, a, b) = (step.tile(0)?, step.tile(1)?, step.tile(2)?);
    step.tiles.product(c, a, b, dot)
}

/// Rows lie at `base + offset`, each `index · scale` further than the one before.
fn row_address(step: &Step<'_>, n: usize, row: usize) -> Result<u64, Fault> {
    let (base, stride) = step.strided(n)?;
    Ok(base.wrapping_add(stride.wrapping_mul(row as u64)))
}

fn load(step: &mut Step<'_>) -> Result<(), Fault> {
    let tile = step.tile(0)?;
    let (rows, bytes) = step.tiles.shape(tile)?;
    let mut content = [[0; 64]; 16];
    for (i, row) in content.iter_mut().enumerate().take(rows) {
        row[..bytes].copy_from_slice(step.memory.read(row_address(step, 1, i)?, bytes)?);
    }
    *step.tiles.rows(tile)? = content;
    Ok(())
}

fn store(step: &mut Step<'_>) -> Result<(), Fault> {
    let tile = step.tile(1)?;
    let (rows, bytes) = step.tiles.shape(tile)?;
    let content = *step.tiles.rows(tile)?;
    for (i, row) in content.iter().enumerate().take(rows) {
        let address = row_address(step, 0, i)?;
        step.memory.write(address, &row[..bytes])?;
    }
    Ok(())
}

fn configure(step: &mut Step<'_>) -> Result<(), Fault> {
    let (address, _) = step.address(0)?;
    let bytes = step.memory.read(address, 64)?.to_vec();
    step.tiles.configure(&bytes)
}

rows! {
    LDTILECFG = Row::plain("ldtilecfg", &[Address], VEX_Ldtilecfg_m512, Keeps, Whole(configure)).from(Level::Amx).effect();
    TILERELEASE = Row::plain("tilerelease", &[], VEX_Tilerelease, Keeps, Whole(|s| {
        s.tiles.release();
        Ok(())
    })).from(Level::Amx).effect();
    TILEZERO = Row::plain("tilezero", &[Tile], VEX_Tilezero_tmm, Keeps, Whole(|s| {
        let tile = s.tile(0)?;
        *s.tiles.rows(tile)? = [[0; 64]; 16];
        Ok(())
    })).from(Level::Amx).effect();
    TILELOADD = Row::plain("tileloadd", &[Tile, Address], VEX_Tileloadd_tmm_sibmem, Keeps, Whole(load)).from(Level::Amx).effect();
    TILESTORED = Row::plain("tilestored", &[Address, Tile], VEX_Tilestored_sibmem_tmm, Keeps, Whole(store)).from(Level::Amx).effect();
    TDPBF16PS = Row::plain("tdpbf16ps", &[Tile, Tile, Tile], VEX_Tdpbf16ps_tmm_tmm_tmm, Keeps, Whole(|s| product(s, dot_bf16))).from(Level::Amx).effect();
    TDPBSSD = Row::plain("tdpbssd", &[Tile, Tile, Tile], VEX_Tdpbssd_tmm_tmm_tmm, Keeps, Whole(|s| product(s, dot_i8_i8))).from(Level::Amx).effect();
}
