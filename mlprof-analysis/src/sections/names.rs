//! Table cells of names, shortened to the available width.

use mlprof_report::internals::table::Cell;
use mlprof_report::internals::{kernel_name, shown, shown_within};

use crate::answers::KernelTimes;

/// Returns the cell of a name.
pub(super) fn name(name: &str) -> Cell {
    Cell::Fitted(vec![name.to_owned()], |name, room| shown_within(&name[0], room))
}

/// Returns the cell of a kernel name. Shortening removes its parameters first.
pub(super) fn kernel(name: &str) -> Cell {
    Cell::Fitted(vec![name.to_owned()], |name, room| kernel_within(&name[0], room))
}

/// Returns the cell of a file path. Shortening keeps its end.
pub(super) fn path(path: &str) -> Cell {
    Cell::Fitted(vec![path.to_owned()], |path, room| end_of_path(&path[0], room))
}

/// Returns the cell of an op and its kernel sequence.
pub(super) fn sequence(op: &str, kernels: &[String]) -> Cell {
    let parts = std::iter::once(op.to_owned()).chain(kernels.iter().cloned()).collect();
    Cell::Fitted(parts, |parts, room| sequence_within(&parts[0], &parts[1..], room))
}

/// Returns the cell of the op that launched a kernel, with the number of other such ops.
pub(super) fn launched_by(row: &KernelTimes) -> Cell {
    let Some(op) = &row.op else { return "-".into() };
    let others = if row.ops > 1 { format!(" +{}", row.ops - 1) } else { String::new() };
    Cell::Fitted(vec![op.clone(), others], |parts, room| shown_within(&parts[0], room) + &parts[1])
}

/// Separator between two kernels of a sequence.
const ARROW: &str = " → ";
/// Maximum length of one kernel name in a sequence. Several shortened names are more useful than
/// one full name.
const KERNEL_OF_SEQUENCE: usize = 40;

/// Returns a kernel name in at most `room` characters.
fn kernel_within(name: &str, room: usize) -> String {
    shown_within(&kernel_name::short(name, room), room)
}

/// Returns a path in at most `room` characters. `…` replaces the beginning of a longer path.
fn end_of_path(path: &str, room: usize) -> String {
    let path = shown(path);
    let length = path.chars().count();
    match length <= room {
        true => path,
        false => "…".chars().chain(path.chars().skip(length + 1 - room)).collect(),
    }
}

/// Returns a text such as `op: kernel → kernel → … 3 more`.
fn sequence_within(op: &str, kernels: &[String], room: usize) -> String {
    let length = |text: &str| text.chars().count();
    let mut text = format!("{}:", shown_within(op, room / 3));
    for (place, name) in kernels.iter().enumerate() {
        let before = if place == 0 { " " } else { ARROW };
        let next = format!("{before}{}", kernel_within(name, KERNEL_OF_SEQUENCE.min(room / 2)));
        let left = kernels.len() - place;
        let rest = format!("{ARROW}… {} more", left - 1);
        let reserved = if left > 1 { length(&rest) } else { 0 };
        if length(&text) + length(&next) + reserved > room {
            let arrow = if place == 0 { " " } else { ARROW };
            return shown_within(&format!("{text}{arrow}… {left} more"), room);
        }
        text.push_str(&next);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(cell: Cell, room: usize) -> String {
        match cell {
            Cell::Fitted(parts, fit) => fit(&parts, room),
            cell => panic!("{cell:?}"),
        }
    }

    #[test]
    fn sequences_end_with_the_number_of_kernels_without_room() {
        let kernels: Vec<String> = (0..54).map(|number| format!("kernel_{number:02}")).collect();
        let cell = |count: usize, room| fit(sequence("aten::mul", &kernels[..count]), room);
        assert_eq!(cell(2, 80), "aten::mul: kernel_00 → kernel_01");
        assert_eq!(cell(54, 60), "aten::mul: kernel_00 → kernel_01 → kernel_02 → … 51 more");
        for room in 20..200 {
            let text = cell(54, room);
            assert!(text.chars().count() <= room, "{room}: {text}");
            assert!(text.ends_with("more") || room < 30, "{room}: {text}");
        }
    }

    #[test]
    fn kernels_lose_parameters_and_other_names_their_middle() {
        let long = "void at::native::elementwise_kernel<4, f<int>>(int, f<int>)";
        assert_eq!(fit(kernel(long), 80), "at::native::elementwise_kernel<4, f<int>>");
        let file = "torch/nn/modules/module.py(1553): _call_impl";
        assert_eq!(fit(name(file), 80), file);
        assert_eq!(fit(name(file), 20), "torch/nn/m…call_impl");
        assert_eq!(fit(path("runs/rank-0.json"), 16), "runs/rank-0.json");
        assert_eq!(fit(path("runs/rank-0.json"), 12), "…rank-0.json");
        let copy = "Memcpy HtoD (Pinned -> Device)";
        assert_eq!(fit(kernel(copy), 80), copy);
    }
}
