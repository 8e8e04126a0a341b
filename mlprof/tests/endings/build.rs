//! Takes a long time if a test requests it, and writes its process id to a file.

fn main() {
    println!("cargo::rerun-if-env-changed=ENDINGS_SLOW_BUILD");
    let Some(told) = std::env::var_os("ENDINGS_SLOW_BUILD") else { return };
    let part = std::path::PathBuf::from(&told).with_extension("part");
    std::fs::write(&part, std::process::id().to_string()).expect("written");
    std::fs::rename(part, told).expect("renamed");
    std::thread::sleep(std::time::Duration::from_secs(120));
}
