//! Random operators of `tensor/ops`: operands, attributes and axes are drawn by their kind, and the builder decides.

use super::operators::{Labelled, Writer};
use tilewright::dim::{Dim, Symbol};
use tilewright::tensor::ops::{AttributeKind, Special, decode};
use tilewright::tensor::{Attribute, Axis, DType, Op, Operand, ValueId};

impl Writer<'_> {
    /// Any operator of the table, if the builder takes what is drawn.
    pub(super) fn special(&mut self, operator: &'static Special) -> Option<ValueId> {
        let (least, most) = operator.operands;
        let count = least + self.random.below(most.min(least + 2) - least + 1);
        let mut labelled: Vec<Labelled> = Vec::new();
        let mut operands: Vec<Operand> = Vec::new();
        for k in 0..count {
            if k == 0 && self.random.one_in(8) {
                let dtype = self.dtype(|_| true);
                operands.push(self.literal(dtype));
                continue;
            }
            let value = self.operand(labelled.first())?;
            operands.push(value.operand());
            labelled.push(value);
        }
        let axes: Vec<Axis> = labelled.first().map(|first| first.ty.axes.clone()).unwrap_or_default();
        let attributes: Vec<Attribute> =
            operator.keywords.iter().map(|(_, kind)| self.attribute(*kind, &axes, &labelled)).collect();
        let stated = match self.random.below(3) {
            0 if count > 0 => None,
            _ => Some(self.stated_axes(&axes, &attributes)),
        };
        let op = || Op::Special { operator, attributes: attributes.clone() };
        // How many results there are is known to the shape rule alone.
        for results in 1..=3 {
            let names: Vec<String> = (0..results).map(|k| self.f.fresh(&format!("o{k}"))).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let lists = stated.clone().map(|axes| vec![axes; results]);
            if let Ok(made) = self.f.op(&names, op(), operands.clone(), lists, None) {
                return made.first().copied();
            }
        }
        None
    }

    /// A first operand under its own names, or another one beside it.
    fn operand(&mut self, first: Option<&Labelled>) -> Option<Labelled> {
        let all = self.all_values();
        let Some(first) = first else {
            let id = self.random.pick(&all).copied()?;
            return Some(Labelled { id, ty: self.f.ty(id).clone() });
        };
        // As likely something of the same type, integers to index with, or anything.
        let (dtype, rank) = (first.ty.dtype, first.ty.axes.len());
        let same = |id: &ValueId| self.f.ty(*id).dtype == dtype && self.f.ty(*id).axes.len() == rank;
        let index = |id: &ValueId| self.f.ty(*id).dtype.is_int();
        let fitting: Vec<ValueId> = match self.random.below(5) {
            0 | 1 => all.into_iter().filter(same).collect(),
            2 | 3 => all.into_iter().filter(index).collect(),
            _ => all,
        };
        let id = self.random.pick(&fitting).copied()?;
        if self.random.one_in(2) {
            // All labels of the first, in order, whatever the extents: one behind the other, or written into it.
            let ty = self.f.ty(id);
            let labels: Vec<Symbol> = first.ty.labels();
            if ty.axes.len() == labels.len() {
                let ty = tilewright::tensor::storage::relabel(ty, &labels, self.f.scope().facts).ok()?;
                return Some(Labelled { id, ty });
            }
        }
        self.aligned(id, &first.ty.axes, true)
    }

    fn attribute(&mut self, kind: AttributeKind, axes: &[Axis], operands: &[Labelled]) -> Attribute {
        match kind {
            AttributeKind::Labels => {
                Attribute::Labels(self.random.pick(axes).map(|axis| axis.name.clone()).into_iter().collect())
            }
            AttributeKind::Dim => Attribute::Dim(self.position(axes, operands)),
            AttributeKind::Scalar => {
                let dtype = operands.first().map_or(DType::F32, |first| first.ty.dtype);
                Attribute::Scalar(self.scalar(dtype))
            }
            AttributeKind::DType => Attribute::DType(self.dtype(|_| true)),
            AttributeKind::Word => {
                let format = self.random.pick(decode::TABLE);
                Attribute::Word(Symbol::new(format.map_or("none", |format| format.name)))
            }
            AttributeKind::Scalars => {
                let count = 1 + self.random.below(5);
                let dtype = if self.random.one_in(2) { DType::F32 } else { DType::I32 };
                Attribute::Scalars((0..count).map(|_| self.scalar(dtype)).collect())
            }
        }
    }

    /// A size or a position, sometimes one that an integer tensor gives for each index of an axis.
    fn position(&mut self, axes: &[Axis], _: &[Labelled]) -> Dim {
        let sizes = self.sizes;
        if self.random.one_in(4) {
            let tables = self.tables();
            let is_size = |name: &Symbol| self.f.scope().facts.range(name).is_some();
            let mut pairs: Vec<(Symbol, Symbol)> = Vec::new();
            for axis in axes.iter().filter(|axis| !is_size(&axis.name)) {
                for (table, extent) in &tables {
                    if *extent == axis.extent {
                        pairs.push((table.clone(), axis.name.clone()));
                    }
                }
            }
            if let Some((table, label)) = self.random.pick(&pairs) {
                return Dim::element(table, vec![Dim::symbol(label)]);
            }
        }
        match self.random.below(6) {
            0 => sizes.symbol(self.random),
            1 => sizes.expression(self.random) - 1,
            _ => sizes.expression(self.random),
        }
    }

    /// Axes that an operator of one operand may give: the operand's in another order, merged, cut, repeated, or others.
    fn stated_axes(&mut self, axes: &[Axis], attributes: &[Attribute]) -> Vec<Axis> {
        let mut axes = axes.to_vec();
        let listed = attributes.iter().find_map(|attribute| match attribute {
            Attribute::Scalars(values) => Some(values.len() as i64),
            _ => None,
        });
        let name = Symbol::from(format!("q{}", self.f.values().len()));
        if let Some(count) = listed {
            return vec![Axis { name, extent: Dim::constant(count) }];
        }
        match self.random.below(7) {
            0 => self.shuffle(&mut axes),
            1 if axes.len() > 1 => {
                // Two neighbours as one.
                let at = self.random.below(axes.len() - 1);
                let second = axes.remove(at + 1);
                axes[at] = Axis { name, extent: &axes[at].extent * second.extent };
            }
            2 if !axes.is_empty() => {
                // One as two.
                let at = self.random.below(axes.len());
                let by = self.random.between(1, 4);
                let extent = axes[at].extent.clone();
                axes[at] = Axis { name, extent: extent.floor_div(by) };
                let inner = Symbol::from(format!("z{by}"));
                axes.insert(at + 1, Axis { name: inner, extent: Dim::constant(by) });
            }
            3 => {
                let at = self.random.below(axes.len() + 1);
                let extent =
                    if self.random.one_in(2) { Dim::constant(1) } else { self.sizes.extent(self.random) };
                axes.insert(at, Axis { name, extent });
            }
            4 if self.sizes.splits.is_some() => {
                // The axis that offsets split, as parts and a ragged axis.
                let ragged = self.sizes.ragged(self.random);
                let total = self.sizes.splits.as_ref().map(|(_, total)| total.clone());
                let at = axes.iter().position(|axis| Some(&axis.extent) == total.as_ref());
                if let (Some(at), Some(ragged)) = (at, ragged) {
                    axes.splice(at..=at, ragged.axes.into_iter().take(2));
                }
            }
            5 => {
                let count = self.random.below(3);
                axes = (0..count)
                    .map(|k| Axis {
                        name: Symbol::from(format!("q{}_{k}", self.f.values().len())),
                        extent: self.sizes.extent(self.random),
                    })
                    .collect();
            }
            _ => axes = vec![Axis { name, extent: self.sizes.extent(self.random) }],
        }
        axes
    }
}
