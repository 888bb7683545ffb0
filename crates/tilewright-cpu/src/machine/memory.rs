//! The memory of the interpreter: regions apart from each other, every access checked.

use super::eval::Fault;

/// Regions of bytes at made-up addresses, with nothing between them.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    regions: Vec<(u64, Vec<u8>)>,
}

impl Memory {
    const FIRST: u64 = 0x1_0000;
    const GAP: u64 = 0x1_0000;

    /// Adds a region that holds `bytes`, and gives its address, which is divisible by 64.
    pub fn add(&mut self, bytes: Vec<u8>) -> u64 {
        let end = self.regions.last().map_or(0, |(base, bytes)| base + bytes.len() as u64);
        let base = (end + Memory::GAP).next_multiple_of(64).max(Memory::FIRST);
        self.regions.push((base, bytes));
        base
    }

    /// The bytes of the region that `add` put at `base`, if there is one.
    pub fn region(&self, base: u64) -> Option<&[u8]> {
        self.regions.iter().find(|(at, _)| *at == base).map(|(_, bytes)| &bytes[..])
    }

    /// `count` bytes from `address` on.
    pub fn read(&self, address: u64, count: usize) -> Result<&[u8], Fault> {
        let found = self.regions.iter().find_map(|(base, bytes)| {
            let start = usize::try_from(address.checked_sub(*base)?).ok()?;
            bytes.get(start..start.checked_add(count)?)
        });
        found.ok_or(Fault::OutOfBounds { address, bytes: count, write: false })
    }

    /// Replaces the bytes from `address` on.
    pub fn write(&mut self, address: u64, new: &[u8]) -> Result<(), Fault> {
        let found = self.regions.iter_mut().find_map(|(base, bytes)| {
            let start = usize::try_from(address.checked_sub(*base)?).ok()?;
            bytes.get_mut(start..start.checked_add(new.len())?)
        });
        found.ok_or(Fault::OutOfBounds { address, bytes: new.len(), write: true })?.copy_from_slice(new);
        Ok(())
    }
}
