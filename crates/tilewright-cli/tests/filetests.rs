//! Runs every file below `filetests/`.

use std::path::Path;
use tilewright_cli::filetest;

#[test]
fn every_filetest_gives_what_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests");
    let bless = std::env::var_os("TILEWRIGHT_BLESS").is_some();
    match filetest::run_folder(&folder, bless) {
        Ok(count) => assert!(count >= 40, "only {count} filetests were found"),
        Err(failures) => panic!("{}", failures.join("\n\n")),
    }
}
