//! Channels: as many pages received as committed, and roles that never wait for each other.
//!
//! A role's operations on channels do not depend on when other roles run, so if one order of the roles comes to its
//! end, every order does. The counts are compared for all sizes, as sums of products of loop extents; the order is run
//! at many small sizes.

use super::{Outcome, Reason, Site};
use crate::dim::{Dim, Env, Proof, Symbol};
use crate::kernel::ir::{ChannelId, Statement};
use std::collections::{BTreeMap, BTreeSet};

/// How many assignments of sizes are simulated.
const SAMPLES: u64 = 256;

/// The most operations of one simulation; an assignment that needs more is left out.
const MAX_OPERATIONS: usize = 1 << 14;

/// Values that symbols take, as far as the facts allow; the first are tried together.
const VALUES: [i64; 12] = [0, 1, 2, 3, 5, 63, 64, 65, 129, 257, 700, 1024];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Acquire,
    Commit,
    Receive,
    Release,
}

/// What a role does with channels.
enum Script {
    Do(Operation, ChannelId),
    Loop(Symbol, Dim, Vec<Script>),
}

pub(super) fn check(site: &Site<'_>) -> Outcome {
    if site.kernel.channels.is_empty() {
        return Ok(());
    }
    let roles: Vec<Vec<Script>> = site.kernel.roles.iter().map(|role| script(&role.body)).collect();
    for (index, channel) in site.kernel.channels.iter().enumerate() {
        let id = ChannelId(index as u32);
        let mut totals = [Dim::constant(0), Dim::constant(0)];
        for (total, operation) in totals.iter_mut().zip([Operation::Commit, Operation::Receive]) {
            for role in &roles {
                *total = &*total + count(site, role, operation, id, &Dim::constant(1), &mut Vec::new())?;
            }
        }
        let [committed, received] = &totals;
        if site.facts.equal(committed, received) != Proof::Yes {
            let message = format!(
                "`{}` commits {committed} pages and receives {received}, which are not known to be as many",
                channel.name
            );
            return site.refuse(Reason::Channel, "", message);
        }
    }
    simulate(site, &roles)
}

/// The operations on channels in statements; loops without any are left out.
fn script(statements: &[Statement]) -> Vec<Script> {
    let step = |statement: &Statement| match statement {
        Statement::Acquire { channel } => Some(Script::Do(Operation::Acquire, *channel)),
        Statement::Commit { channel, .. } => Some(Script::Do(Operation::Commit, *channel)),
        Statement::Receive { channel } => Some(Script::Do(Operation::Receive, *channel)),
        Statement::Release { channel } => Some(Script::Do(Operation::Release, *channel)),
        Statement::Loop { coordinate, extent, body } => {
            let body = script(body);
            (!body.is_empty()).then(|| Script::Loop(coordinate.clone(), extent.clone(), body))
        }
        _ => None,
    };
    statements.iter().filter_map(step).collect()
}

/// How often a script does an operation, if it runs `times`.
fn count(
    site: &Site<'_>,
    steps: &[Script],
    operation: Operation,
    channel: ChannelId,
    times: &Dim,
    loops: &mut Vec<Symbol>,
) -> Outcome<Dim> {
    let mut total = Dim::constant(0);
    for step in steps {
        match step {
            Script::Do(done, on) if *done == operation && *on == channel => total = &total + times,
            Script::Do(..) => {}
            Script::Loop(coordinate, extent, body) => {
                if loops.iter().any(|outer| extent.mentions(outer)) {
                    let message =
                        format!("pages in a loop of {extent}, which varies from iteration to iteration");
                    return site.refuse(Reason::Channel, "", message);
                }
                let known = site.facts.nonneg(extent).is_yes();
                let runs = if known { extent.clone() } else { Dim::max(extent, 0) };
                loops.push(coordinate.clone());
                let inner = count(site, body, operation, channel, &(times * &runs), loops);
                loops.pop();
                total = &total + &inner?;
            }
        }
    }
    Ok(total)
}

/// Values for the symbols and table elements of loop extents.
struct Sample {
    symbols: BTreeMap<Symbol, i64>,
    seed: u64,
}

impl Env for Sample {
    fn symbol(&self, symbol: &Symbol) -> Option<i64> {
        self.symbols.get(symbol).copied()
    }

    fn element(&self, table: &Symbol, index: &[i64]) -> Option<i64> {
        let bytes = table.as_str().bytes().map(u64::from);
        let mixed = bytes.chain(index.iter().map(|i| *i as u64)).fold(self.seed, mix);
        Some((mixed >> 32) as i64 % 200)
    }
}

fn mix(state: u64, value: u64) -> u64 {
    (state ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

/// Where a role is: for each list that it is in the next step, and the iterations left.
struct Cursor<'a> {
    levels: Vec<(&'a [Script], usize, i64)>,
}

#[derive(Clone, Copy, Default)]
struct Ring {
    empty: usize,
    full: usize,
}

/// Runs the roles at small sizes until they come to their end, or wait for each other.
fn simulate(site: &Site<'_>, roles: &[Vec<Script>]) -> Outcome {
    let mut symbols = BTreeSet::new();
    roles.iter().for_each(|role| collect(role, &mut symbols));
    for sample in 0..SAMPLES {
        let mut state = mix(7, sample);
        let mut values = BTreeMap::new();
        for symbol in &symbols {
            state = mix(state, 11);
            let choice =
                if sample < VALUES.len() as u64 { sample } else { (state >> 32) % VALUES.len() as u64 };
            let (lo, hi) = site.program.facts.range(symbol).unwrap_or((0, None));
            let mut value = VALUES[choice as usize].max(lo).min(hi.unwrap_or(i64::MAX));
            if let Some(divisor) = site.program.facts.divisor(symbol) {
                value = (value - value.rem_euclid(divisor)).max(lo);
            }
            values.insert(symbol.clone(), value);
        }
        let sample = Sample { symbols: values, seed: state };
        run(site, roles, &sample)?;
    }
    Ok(())
}

fn collect(steps: &[Script], symbols: &mut BTreeSet<Symbol>) {
    for step in steps {
        if let Script::Loop(_, extent, body) = step {
            symbols.append(&mut extent.symbols());
            collect(body, symbols);
        }
    }
}

fn run(site: &Site<'_>, roles: &[Vec<Script>], sample: &Sample) -> Outcome {
    let channels = &site.kernel.channels;
    let mut rings: Vec<Ring> =
        channels.iter().map(|channel| Ring { empty: channel.pages, full: 0 }).collect();
    let mut cursors: Vec<Cursor<'_>> =
        roles.iter().map(|role| Cursor { levels: vec![(role, 0, 1)] }).collect();
    let mut operations = 0;
    loop {
        let mut moved = false;
        for cursor in &mut cursors {
            while let Some((operation, channel)) = cursor.next(sample) {
                let Some(ring) = rings.get_mut(channel.0 as usize) else { return Ok(()) };
                let (from, to) = match operation {
                    Operation::Acquire => (Some(&mut ring.empty), None),
                    Operation::Commit => (None, Some(&mut ring.full)),
                    Operation::Receive => (Some(&mut ring.full), None),
                    Operation::Release => (None, Some(&mut ring.empty)),
                };
                match from {
                    Some(0) => break,
                    Some(count) => *count -= 1,
                    None => {}
                }
                if let Some(count) = to {
                    *count += 1;
                }
                cursor.pass();
                moved = true;
                operations += 1;
                if operations > MAX_OPERATIONS {
                    return Ok(());
                }
            }
        }
        if cursors.iter_mut().all(|cursor| cursor.next(sample).is_none()) {
            return Ok(());
        }
        if !moved {
            let waiting: Vec<String> = (cursors.iter_mut().zip(&site.kernel.roles))
                .filter_map(|(cursor, role)| {
                    let (operation, channel) = cursor.next(sample)?;
                    let name = channels.get(channel.0 as usize).map(|channel| channel.name.to_string());
                    Some(
                        format!("{} at {operation:?} of `{}`", role.name, name.unwrap_or_default())
                            .to_lowercase(),
                    )
                })
                .collect();
            let sizes: Vec<String> =
                sample.symbols.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            let sizes = if sizes.is_empty() { "any sizes".to_string() } else { sizes.join(", ") };
            let message = format!("roles wait for each other (at {sizes}): {}", waiting.join(", "));
            return site.refuse(Reason::Deadlock, "", message);
        }
    }
}

impl<'a> Cursor<'a> {
    /// The next operation, entering and leaving loops on the way.
    fn next(&mut self, sample: &Sample) -> Option<(Operation, ChannelId)> {
        loop {
            let (steps, at, left) = self.levels.last_mut()?;
            match steps.get(*at) {
                None => {
                    *left -= 1;
                    if *left > 0 {
                        *at = 0;
                    } else {
                        self.levels.pop();
                        self.pass();
                    }
                }
                Some(Script::Do(operation, channel)) => return Some((*operation, *channel)),
                Some(Script::Loop(_, extent, body)) => {
                    let runs = extent.eval(sample).unwrap_or(0);
                    if runs > 0 {
                        self.levels.push((body, 0, runs));
                    } else {
                        self.pass();
                    }
                }
            }
        }
    }

    fn pass(&mut self) {
        if let Some((_, at, _)) = self.levels.last_mut() {
            *at += 1;
        }
    }
}
