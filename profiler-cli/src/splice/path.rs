//! Where a function is.

/// The path of a function, by its names: `my_model::net::Net::forward`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FunctionPath {
    pub segments: Vec<String>,
    /// Of a method of a trait's implementation: which segment is the type, and the trait's name.
    pub implemented: Option<(usize, String)>,
}

impl FunctionPath {
    /// With one more name.
    pub fn join(&self, name: &str) -> Self {
        let mut path = self.clone();
        path.segments.push(name.to_owned());
        path
    }

    /// All ways to write it, as rustc prints it first: with the type, with the trait, with
    /// `<Type as Trait>`.
    pub fn spellings(&self) -> impl Iterator<Item = Vec<&str>> {
        let names = || self.segments.iter().map(String::as_str).collect::<Vec<_>>();
        let both = self.implemented.as_ref();
        let by_trait = both.map(|(place, name)| {
            let mut names = names();
            names[*place] = name;
            names
        });
        std::iter::once(names()).chain(by_trait)
    }

    /// `<Type as Trait>`, and which segment it may stand for.
    pub fn qualified(&self) -> Option<(usize, String)> {
        let (place, name) = self.implemented.as_ref()?;
        Some((*place, format!("<{} as {name}>", self.segments[*place])))
    }

    /// The function's own name.
    pub fn name(&self) -> &str {
        self.segments.last().map_or("", String::as_str)
    }
}

impl std::fmt::Display for FunctionPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.segments.join("::"))
    }
}
