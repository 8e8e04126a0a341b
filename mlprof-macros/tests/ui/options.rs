use mlprof_macros::profile;

#[profile(nmae = "load")]
fn misspelt() {}

#[profile(name = load)]
fn not_a_literal() {}

#[profile(name = "a", name = "b")]
fn twice() {}

#[profile(skip)]
fn skipped() {}

struct Net;

#[profile]
impl Net {
    #[profile(sort)]
    fn forward(&self) {}
}

#[profile]
impl Net {
    #[profile]
    #[profile(name = "again")]
    fn backward(&self) {}
}

fn main() {
    misspelt();
    not_a_literal();
    twice();
    skipped();
    Net.forward();
    Net.backward();
}
