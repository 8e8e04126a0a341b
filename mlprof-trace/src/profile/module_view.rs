//! The modules of a model as a tree, with the cost of each.
//!
//! A module's path determines its position in the tree, and its calls determine its cost. A module
//! need not be called inside the parent of its path, and other modules may be called there as well.

use std::collections::{HashMap, HashSet};

use super::Profile;
use super::averages::Costs;
use super::modules::{ChainId, Module, ModuleId};
use mlprof_events::OrderExt;
use mlprof_events::clock::Rate;
use mlprof_events::{ActionKind, Phase};
use mlprof_report::tensor::{ModuleCost, ModuleStatistics};

/// Position in the tree: the root of the model, if it is recorded, and the path below it.
type Place = (Option<ModuleId>, &'static str);

/// Cost of one module.
#[derive(Clone, Copy)]
struct Tally {
    calls: u64,
    first_started: u64,
    /// Cost of the module without the modules that it called.
    own: ModuleCost,
}

impl Default for Tally {
    fn default() -> Self {
        Self { calls: 0, first_started: u64::MAX, own: ModuleCost::default() }
    }
}

impl Profile {
    /// Returns the modules in the order in which they first ran, nested by path.
    pub fn modules(&self, rate: Rate) -> Vec<ModuleStatistics> {
        let (tallies, costs) = self.tallies(rate);
        let mut order: Vec<(ModuleId, &Module)> = self.tree.modules.iter().collect();
        // Roots come first, so that modules below them can find them.
        order.order_by_key(|(id, module)| {
            (!module.path.is_empty(), tallies.get(id).map_or(u64::MAX, |tally| tally.first_started))
        });
        let mut forest = Vec::new();
        let mut roots: HashMap<ModuleId, usize> = HashMap::new();
        for (id, module) in order {
            let tally = tallies.get(&id);
            if module.path.is_empty() {
                roots.insert(id, forest.len());
                let root = branch(module.type_name, "");
                forest.push(ModuleStatistics { type_name: module.type_name.to_owned(), ..root });
                fill(forest.last_mut(), module, tally);
                continue;
            }
            let root = module.root.and_then(|root| roots.get(&root));
            let top = match root {
                Some(index) => &mut forest[*index].children,
                None => &mut forest,
            };
            fill(place(top, module.path), module, tally);
        }
        let totals = self.totals_by_place(&tallies, &costs);
        let root_of: HashMap<usize, ModuleId> =
            roots.into_iter().map(|(id, index)| (index, id)).collect();
        for (index, module) in forest.iter_mut().enumerate() {
            fill_totals(module, root_of.get(&index).copied(), &totals);
        }
        forest
    }

    /// Returns the own cost of each module, and the cost of each chain of nested module calls.
    fn tallies(&self, rate: Rate) -> (HashMap<ModuleId, Tally>, HashMap<ChainId, ModuleCost>) {
        let costs = Costs::new(self);
        let mut tallies: HashMap<ModuleId, Tally> = HashMap::new();
        let mut by_chain: HashMap<ChainId, ModuleCost> = HashMap::new();
        for (id, node) in self.tree.nodes.iter().enumerate() {
            let Some(chain) = node.modules else { continue };
            let tally = tallies.entry(self.tree.modules.innermost(chain)).or_default();
            if node.kind == ActionKind::Module {
                tally.calls += node.calls.count;
                tally.first_started = tally.first_started.min(node.calls.first_started);
            }
            let cost = cost_of(self, &costs, id, rate);
            tally.own += cost;
            *by_chain.entry(chain).or_default() += cost;
        }
        (tallies, by_chain)
    }

    /// Returns the cost inside the calls of each module, counted once even for recursive calls. A
    /// part of a path that is not a module has the cost of the modules below it.
    fn totals_by_place(
        &self,
        tallies: &HashMap<ModuleId, Tally>,
        costs: &HashMap<ChainId, ModuleCost>,
    ) -> HashMap<Place, ModuleCost> {
        let modules = &self.tree.modules;
        let is_called = |id: &ModuleId| tallies.get(id).is_some_and(|tally| tally.calls > 0);
        let called: HashSet<Place> = modules
            .iter()
            .filter(|(id, _)| is_called(id))
            .map(|(id, module)| place_of(id, module))
            .collect();
        let mut totals: HashMap<Place, ModuleCost> = HashMap::new();
        for (chain, cost) in costs {
            let mut places: Vec<Place> = Vec::new();
            for chain in modules.ways_up(Some(*chain)) {
                let id = modules.innermost(chain);
                let Some(module) = modules.get(id) else { continue };
                let (root, path) = place_of(id, module);
                let parts = path.match_indices('.').map(|(dot, _)| (root, &path[..dot]));
                places.push((root, path));
                places.extend(parts.filter(|part| !called.contains(part)));
            }
            places.order();
            places.dedup();
            places.into_iter().for_each(|place| *totals.entry(place).or_default() += *cost);
        }
        totals
    }
}

fn place_of(id: ModuleId, module: &Module) -> Place {
    match module.path {
        "" => (Some(id), ""),
        path => (module.root, path),
    }
}

fn fill_totals(
    module: &mut ModuleStatistics,
    root: Option<ModuleId>,
    totals: &HashMap<Place, ModuleCost>,
) {
    module.total = totals.get(&(root, &*module.path)).copied().unwrap_or_default();
    module.children.iter_mut().for_each(|child| fill_totals(child, root, totals));
}

/// Returns the own cost of one path.
fn cost_of(profile: &Profile, costs: &Costs, id: usize, rate: Rate) -> ModuleCost {
    let node = &profile.tree.nodes[id];
    let mut cost = ModuleCost::default();
    for bytes in costs.own_memory.values().map(|all| all[id]) {
        cost.memory_bytes = cost
            .memory_bytes
            .saturating_add_unsigned(bytes.allocated)
            .saturating_sub_unsigned(bytes.freed);
        if costs.phases[id] != Phase::Backward {
            cost.allocated_bytes += bytes.allocated;
        }
    }
    let is_on_device = node.kind == ActionKind::Kernel;
    let own = u64::try_from(node.calls.own).unwrap_or(0);
    let host = if is_on_device { 0.0 } else { rate.seconds(own) };
    let device = if is_on_device { rate.seconds(node.calls.total) } else { 0.0 };
    if costs.phases[id] == Phase::Backward {
        cost.backward_seconds = host;
        cost.backward_device_seconds = device;
        cost.backward_flops = costs.flops[id];
        cost.backward_moved_bytes = costs.moved[id].known().unwrap_or(0);
    } else {
        cost.forward_seconds = host;
        cost.forward_device_seconds = device;
        cost.forward_flops = costs.flops[id];
        cost.forward_moved_bytes = costs.moved[id].known().unwrap_or(0);
    }
    cost
}

/// Returns an empty module.
fn branch(name: &str, path: &str) -> ModuleStatistics {
    ModuleStatistics {
        name: name.to_owned(),
        path: path.to_owned(),
        type_name: String::new(),
        calls: 0,
        total: ModuleCost::default(),
        own: ModuleCost::default(),
        children: Vec::new(),
    }
}

/// Returns the module at a path below `top`, and creates it if it does not exist.
fn place<'tree>(
    mut top: &'tree mut Vec<ModuleStatistics>,
    path: &str,
) -> Option<&'tree mut ModuleStatistics> {
    let mut ends = path.match_indices('.').map(|(dot, _)| dot).chain([path.len()]).peekable();
    let mut start = 0;
    while let Some(end) = ends.next() {
        let name = &path[start..end];
        start = end + 1;
        let known = top.iter().position(|module| !module.path.is_empty() && module.name == name);
        let index = known.unwrap_or_else(|| {
            top.push(branch(name, &path[..end]));
            top.len() - 1
        });
        let module = top.get_mut(index)?;
        if ends.peek().is_none() {
            return Some(module);
        }
        top = &mut module.children;
    }
    None
}

fn fill(place: Option<&mut ModuleStatistics>, module: &Module, tally: Option<&Tally>) {
    let (Some(place), Some(tally)) = (place, tally) else { return };
    if place.type_name.is_empty() {
        place.type_name = module.type_name.to_owned();
    }
    place.calls += tally.calls;
    place.own += tally.own;
}
