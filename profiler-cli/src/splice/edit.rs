//! Insertions into a text.

/// Insertions into one source text, at byte offsets. None contains a line break, so that every line
/// keeps its number.
#[derive(Debug, Default)]
pub struct Edits {
    insertions: Vec<Insertion>,
}

#[derive(Debug)]
struct Insertion {
    offset: usize,
    is_closing: bool,
    text: String,
}

impl Edits {
    /// Inserts `text` before what stands at `offset`. Several at one offset stand in the order in
    /// which they were inserted: the outer one of two brackets first.
    pub fn insert(&mut self, offset: usize, text: impl Into<String>) {
        self.push(offset, false, text.into());
    }

    /// Inserts `text`, which ends something, after what ends at `offset`: before all that is
    /// [inserted](Self::insert) there. Of several at one offset the last comes first: the outer one
    /// of two brackets is closed first by the program, and last in the text.
    pub fn close(&mut self, offset: usize, text: impl Into<String>) {
        self.push(offset, true, text.into());
    }

    fn push(&mut self, offset: usize, is_closing: bool, text: String) {
        debug_assert!(!text.contains('\n'), "lines keep their numbers: {text}");
        self.insertions.push(Insertion { offset, is_closing, text });
    }

    /// Whether there is nothing to insert.
    pub fn is_empty(&self) -> bool {
        self.insertions.is_empty()
    }

    /// `source` with all insertions. Those at offsets that are not in `source` are left out.
    pub fn apply(self, source: &str) -> String {
        let mut insertions: Vec<_> = self.insertions.into_iter().enumerate().collect();
        insertions.sort_by_key(|(number, insertion)| {
            let order = *number as i64;
            let order = if insertion.is_closing { -order } else { order };
            (insertion.offset, !insertion.is_closing, order)
        });
        let added: usize = insertions.iter().map(|(_, insertion)| insertion.text.len()).sum();
        let mut text = String::with_capacity(source.len() + added);
        let mut done = 0;
        for (_, insertion) in insertions {
            let Some(until) = source.get(done..insertion.offset) else { continue };
            text.push_str(until);
            text.push_str(&insertion.text);
            done = insertion.offset;
        }
        text.push_str(&source[done..]);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_nest_in_the_order_they_were_inserted() {
        let mut edits = Edits::default();
        edits.insert(0, "outer(");
        edits.close(1, ")");
        edits.insert(0, "inner[");
        edits.close(1, "]");
        edits.insert(1, "+");
        assert_eq!(edits.apply("ab"), "outer(inner[a])+b");
    }

    #[test]
    fn an_offset_outside_of_the_text_does_no_harm() {
        let mut edits = Edits::default();
        edits.insert(1, "x");
        edits.insert(99, "y");
        edits.insert(3, "z");
        assert_eq!(edits.apply("aé"), "axéz");
        assert!(Edits::default().is_empty());
    }
}
