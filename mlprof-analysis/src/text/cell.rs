//! The last cells of tables, which names are in: as much of them as there is room for.

use mlprof_report::internals::{kernel_name, shown, shown_within};

/// What a table's last cell shows.
#[derive(Debug, Clone)]
pub(crate) enum LastCell<'a> {
    Text(String),
    /// A kernel's name, which loses its parameters first.
    Kernel(&'a str),
    /// A file's path, whose end matters most.
    Path(&'a str),
    /// An op and the kernels that it launches.
    Sequence(&'a str, &'a [String]),
}

/// Between two kernels of a sequence.
const ARROW: &str = " → ";
/// What a kernel of a sequence takes at most: names of several say more than all of one.
const KERNEL_OF_SEQUENCE: usize = 40;

impl LastCell<'_> {
    /// The cell in at most `room` characters.
    pub(crate) fn fit(&self, room: usize) -> String {
        match self {
            Self::Text(text) => shown_within(text, room),
            Self::Kernel(name) => kernel(name, room),
            Self::Path(path) => end_of_path(path, room),
            Self::Sequence(op, kernels) => sequence(op, kernels, room),
        }
    }
}

/// A kernel's name in at most `room` characters, as tables show it.
pub(crate) fn kernel(name: &str, room: usize) -> String {
    shown_within(&kernel_name::short(name, room), room)
}

/// A path in at most `room` characters: the beginning of a longer one is replaced by `…`.
fn end_of_path(path: &str, room: usize) -> String {
    let path = shown(path);
    let length = path.chars().count();
    match length <= room {
        true => path,
        false => "…".chars().chain(path.chars().skip(length + 1 - room)).collect(),
    }
}

/// `op: kernel → kernel → … 3 more`.
fn sequence(op: &str, kernels: &[String], room: usize) -> String {
    let length = |text: &str| text.chars().count();
    let mut text = format!("{}:", shown_within(op, room / 3));
    for (place, name) in kernels.iter().enumerate() {
        let before = if place == 0 { " " } else { ARROW };
        let next = format!("{before}{}", kernel(name, KERNEL_OF_SEQUENCE.min(room / 2)));
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

    #[test]
    fn sequences_end_with_the_number_of_kernels_without_room() {
        let kernels: Vec<String> = (0..54).map(|number| format!("kernel_{number:02}")).collect();
        let cell =
            |count: usize, room| LastCell::Sequence("aten::mul", &kernels[..count]).fit(room);
        assert_eq!(cell(2, 80), "aten::mul: kernel_00 → kernel_01");
        assert_eq!(cell(54, 60), "aten::mul: kernel_00 → kernel_01 → kernel_02 → … 51 more");
        for room in 20..200 {
            let text = cell(54, room);
            assert!(text.chars().count() <= room, "{room}: {text}");
            assert!(text.ends_with("more") || room < 30, "{room}: {text}");
        }
    }

    #[test]
    fn kernels_lose_parameters_and_other_names_their_end() {
        let name = "void at::native::elementwise_kernel<4, f<int>>(int, f<int>)";
        assert_eq!(LastCell::Kernel(name).fit(80), "at::native::elementwise_kernel<4, f<int>>");
        let path = "torch/nn/modules/module.py(1553): _call_impl";
        assert_eq!(LastCell::Text(path.to_owned()).fit(80), path);
        assert_eq!(LastCell::Text(path.to_owned()).fit(20), "torch/nn/modules/mo…");
        assert_eq!(LastCell::Path("runs/rank-0.json").fit(16), "runs/rank-0.json");
        assert_eq!(LastCell::Path("runs/rank-0.json").fit(12), "…rank-0.json");
        assert_eq!(
            LastCell::Kernel("Memcpy HtoD (Pinned -> Device)").fit(80),
            "Memcpy HtoD (Pinned -> Device)"
        );
    }
}
