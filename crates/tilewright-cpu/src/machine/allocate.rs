//! Registers for values, by `regalloc2`.

use super::ir::*;
use super::level::Level;
use super::row::Slot;
use regalloc2::{
    Block as AllocBlock, Inst as AllocInst, InstRange, MachineEnv, Operand, OperandConstraint, OperandKind,
    OperandPos, PReg, PRegSet, RegClass, RegallocOptions, VReg,
};

/// General registers that a function must leave as they were, beside `rsp` and `rbp`.
pub(super) const KEPT: [usize; 5] = [3, 12, 13, 14, 15];

/// What an instruction of the flat program is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FlatInst {
    /// The arguments arrive.
    Entry,
    /// An instruction of a block.
    Op(usize, usize),
    /// The end of a block.
    End(usize),
    /// The jump at the end of an edge that was split.
    Edge,
}

/// A block of the flat program: a block of the machine program, or an edge between two.
pub(super) struct FlatBlock {
    pub first: usize,
    pub end: usize,
    pub succs: Vec<AllocBlock>,
    pub preds: Vec<AllocBlock>,
    params: Vec<VReg>,
    /// What each successor's parameters are given.
    given: Vec<Vec<VReg>>,
    /// The block of the machine program; `None` for an edge.
    pub block: Option<usize>,
}

/// A machine program as the allocator wants it: instructions in one row, critical edges split.
pub(super) struct Flat {
    pub insts: Vec<FlatInst>,
    operands: Vec<Operand>,
    starts: Vec<usize>,
    pub blocks: Vec<FlatBlock>,
    values: usize,
    vector_slots: usize,
}

fn class(class: Class) -> RegClass {
    match class {
        Class::General => RegClass::Int,
        Class::Vector => RegClass::Float,
        Class::Mask => RegClass::Vector,
    }
}

/// The registers that an instruction reads, in the order in which the encoder asks for them: those of its arguments
/// slot by slot (base before index), its mask, and what it merges with.
pub(super) fn reads(inst: &Inst, mut visit: impl FnMut(ValueId, Slot)) {
    let taking = inst.row.slots.iter().filter(|slot| slot.takes());
    for (slot, arg) in taking.zip(&inst.args) {
        match arg {
            Arg::Value(value) => visit(*value, *slot),
            Arg::Mem(mem) | Arg::Broadcast(mem) => {
                if let Base::Value(value) = mem.base {
                    visit(value, Slot::Address);
                }
                if let Some((value, _)) = mem.index {
                    visit(value, *slot);
                }
            }
            Arg::Splat(_) | Arg::Imm(_) | Arg::Tile(_) => {}
        }
    }
    if let Some(masking) = inst.masking {
        visit(masking.mask, Slot::Address);
        if let Some(value) = masking.merge {
            visit(value, Slot::Address);
        }
    }
}

impl Flat {
    pub fn new(program: &Program) -> Flat {
        let mut flat = Flat {
            insts: Vec::new(),
            operands: Vec::new(),
            starts: Vec::new(),
            blocks: Vec::new(),
            values: program.values.len(),
            vector_slots: program.level.width().bytes() / 8,
        };
        let mut jumps = vec![0; program.blocks.len()];
        for target in program.blocks.iter().flat_map(|block| block.end.targets()) {
            jumps[target.block.0 as usize] += 1;
        }
        let split = |end: &Terminator, target: &Target| {
            matches!(end, Terminator::Branch { .. }) && jumps[target.block.0 as usize] > 1
        };
        // Where each block lies once edges are split: an edge lies behind the block that it leaves.
        let mut places = Vec::new();
        let mut next = 0;
        for block in &program.blocks {
            places.push(next);
            next += 1 + block.end.targets().filter(|target| split(&block.end, target)).count();
        }
        let vreg = |value: &ValueId| VReg::new(value.0 as usize, class(program.class(*value)));
        for (number, block) in program.blocks.iter().enumerate() {
            let first = flat.insts.len();
            if number == 0 {
                flat.begin(FlatInst::Entry);
                for (param, register) in block.params.iter().zip([7, 6]) {
                    flat.operands
                        .push(Operand::reg_fixed_def(vreg(param), PReg::new(register, RegClass::Int)));
                }
            }
            for (i, inst) in block.insts.iter().enumerate() {
                flat.begin(FlatInst::Op(number, i));
                flat.inst(program, inst);
            }
            flat.begin(FlatInst::End(number));
            match &block.end {
                Terminator::Jump(_) => {}
                Terminator::Branch { left, right, .. } => {
                    flat.operands.push(Operand::reg_use(vreg(left)));
                    if let Right::Value(right) = right {
                        flat.operands.push(Operand::reg_use(vreg(right)));
                    }
                }
                Terminator::Return(value) => {
                    flat.operands.push(Operand::reg_fixed_use(vreg(value), PReg::new(0, RegClass::Int)));
                }
            }
            let mut edges = Vec::new();
            let (mut succs, mut given) = (Vec::new(), Vec::new());
            for target in block.end.targets() {
                let place = AllocBlock::new(places[target.block.0 as usize]);
                let args: Vec<VReg> = target.args.iter().map(vreg).collect();
                if split(&block.end, target) {
                    edges.push((place, args));
                    succs.push(AllocBlock::new(places[number] + edges.len()));
                    given.push(Vec::new());
                } else {
                    succs.push(place);
                    given.push(args);
                }
            }
            let params = if number == 0 { Vec::new() } else { block.params.iter().map(vreg).collect() };
            let end = flat.insts.len();
            flat.blocks.push(FlatBlock {
                first,
                end,
                succs,
                preds: Vec::new(),
                params,
                given,
                block: Some(number),
            });
            for (place, args) in edges {
                let first = flat.insts.len();
                flat.begin(FlatInst::Edge);
                flat.blocks.push(FlatBlock {
                    first,
                    end: first + 1,
                    succs: vec![place],
                    preds: Vec::new(),
                    params: Vec::new(),
                    given: vec![args],
                    block: None,
                });
            }
        }
        flat.starts.push(flat.operands.len());
        for number in 0..flat.blocks.len() {
            for succ in flat.blocks[number].succs.clone() {
                flat.blocks[succ.index()].preds.push(AllocBlock::new(number));
            }
        }
        flat
    }

    fn begin(&mut self, inst: FlatInst) {
        self.insts.push(inst);
        self.starts.push(self.operands.len());
    }

    fn inst(&mut self, program: &Program, inst: &Inst) {
        let start = self.operands.len();
        let mut tied = Vec::new();
        let mut lost = Vec::new();
        let mut late = Vec::new();
        reads(inst, |value, slot| {
            let vreg = VReg::new(value.0 as usize, class(program.class(value)));
            let here = self.operands.len() - start;
            let (constraint, pos) = match slot {
                Slot::FixedUse(n) => {
                    (OperandConstraint::FixedReg(PReg::new(n.into(), RegClass::Int)), OperandPos::Early)
                }
                Slot::Late(..) | Slot::Lanes(_) => (OperandConstraint::Reg, OperandPos::Late),
                _ => (OperandConstraint::Reg, OperandPos::Early),
            };
            match slot {
                Slot::Tied(..) => tied.push(here),
                Slot::Lost | Slot::Consumed => lost.push((here, vreg.class())),
                _ => {}
            }
            late.push(pos == OperandPos::Late);
            self.operands.push(Operand::new(vreg, constraint, OperandKind::Use, pos));
        });
        if inst.masking.is_some_and(|masking| masking.merge.is_some()) {
            tied.push(self.operands.len() - start - 1);
        }
        let mut tied = tied.into_iter();
        let mut results = inst.results.iter();
        for slot in inst.row.slots {
            let Some(of) = slot.gives() else { continue };
            let Some(result) = results.next() else { break };
            let vreg = VReg::new(result.0 as usize, class(of));
            let constraint = match slot {
                Slot::FixedDef(n) => OperandConstraint::FixedReg(PReg::new((*n).into(), RegClass::Int)),
                _ => tied.next().map_or(OperandConstraint::Reg, OperandConstraint::Reuse),
            };
            self.operands.push(Operand::new(vreg, constraint, OperandKind::Def, OperandPos::Late));
        }
        for (operand, of) in lost {
            let vreg = VReg::new(self.values, of);
            self.values += 1;
            let constraint = OperandConstraint::Reuse(operand);
            self.operands.push(Operand::new(vreg, constraint, OperandKind::Def, OperandPos::Late));
        }
    }
}

impl regalloc2::Function for Flat {
    fn num_insts(&self) -> usize {
        self.insts.len()
    }

    fn num_blocks(&self) -> usize {
        self.blocks.len()
    }

    fn entry_block(&self) -> AllocBlock {
        AllocBlock::new(0)
    }

    fn block_insns(&self, block: AllocBlock) -> InstRange {
        let block = &self.blocks[block.index()];
        InstRange::new(AllocInst::new(block.first), AllocInst::new(block.end))
    }

    fn block_succs(&self, block: AllocBlock) -> &[AllocBlock] {
        &self.blocks[block.index()].succs
    }

    fn block_preds(&self, block: AllocBlock) -> &[AllocBlock] {
        &self.blocks[block.index()].preds
    }

    fn block_params(&self, block: AllocBlock) -> &[VReg] {
        &self.blocks[block.index()].params
    }

    fn is_ret(&self, inst: AllocInst) -> bool {
        matches!(self.insts[inst.index()], FlatInst::End(_)) && !self.is_branch(inst)
    }

    fn is_branch(&self, inst: AllocInst) -> bool {
        match self.insts[inst.index()] {
            FlatInst::Edge => true,
            FlatInst::End(_) => {
                let at = self.blocks.partition_point(|block| block.end <= inst.index());
                !self.blocks[at].succs.is_empty()
            }
            _ => false,
        }
    }

    fn branch_blockparams(&self, block: AllocBlock, _: AllocInst, succ: usize) -> &[VReg] {
        &self.blocks[block.index()].given[succ]
    }

    fn inst_operands(&self, inst: AllocInst) -> &[Operand] {
        &self.operands[self.starts[inst.index()]..self.starts[inst.index() + 1]]
    }

    fn inst_clobbers(&self, _: AllocInst) -> PRegSet {
        PRegSet::empty()
    }

    fn num_vregs(&self) -> usize {
        self.values
    }

    fn spillslot_size(&self, class: RegClass) -> usize {
        if class == RegClass::Float { self.vector_slots } else { 1 }
    }
}

/// The registers of a level. `rsp` and `rbp` hold the frame; `k0` cannot be a predicate.
pub(super) fn registers(level: Level) -> MachineEnv {
    let set = |numbers: &mut dyn Iterator<Item = usize>, class| {
        numbers.fold(PRegSet::empty(), |set, n| set.with(PReg::new(n, class)))
    };
    let masks = if level >= Level::Avx512 { 1..8 } else { 0..0 };
    MachineEnv {
        preferred_regs_by_class: [
            set(&mut [0, 1, 2, 6, 7, 8, 9, 10, 11].into_iter(), RegClass::Int),
            set(&mut (0..level.vector_registers()), RegClass::Float),
            set(&mut masks.into_iter(), RegClass::Vector),
        ],
        non_preferred_regs_by_class: [
            set(&mut KEPT.into_iter(), RegClass::Int),
            PRegSet::empty(),
            PRegSet::empty(),
        ],
        scratch_by_class: [None; 3],
        fixed_stack_slots: Vec::new(),
    }
}

/// Gives each value a register or a place in the frame.
pub(super) fn allocate(flat: &Flat, level: Level) -> Result<regalloc2::Output, regalloc2::RegAllocError> {
    regalloc2::run(flat, &registers(level), &RegallocOptions::default())
}

/// Checks an allocation by following every value through it (`regalloc2`'s checker).
///
/// # Errors
/// What the checker found.
pub fn check_allocation(program: &Program) -> Result<(), String> {
    let flat = Flat::new(program);
    let output = allocate(&flat, program.level).map_err(|error| error.to_string())?;
    let env = registers(program.level);
    let mut checker = regalloc2::checker::Checker::new(&flat, &env);
    checker.prepare(&output);
    checker.run().map_err(|errors| format!("{errors:?}"))
}
