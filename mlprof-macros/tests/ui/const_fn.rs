use mlprof_macros::profile;

#[profile]
const fn answer() -> u32 {
    42
}

struct Net;

#[profile]
impl Net {
    pub const fn width(&self) -> u32 {
        answer()
    }
}

fn main() {
    const { answer() };
    let _ = Net.width();
}
