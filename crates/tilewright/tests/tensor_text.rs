//! The text form of tensor programs: round trips, messages, and texts that are broken at random.

use tilewright::tensor::text::parse;

fn programs() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("programs/ is there") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "tensor") {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_string();
            found.push((name, std::fs::read_to_string(&path).expect("readable")));
        }
    }
    found.sort();
    found
}

#[test]
fn programs_round_trip() {
    for (name, text) in programs() {
        let program = parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
        let printed = program.to_string();
        let again = parse(&name, &printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert_eq!(again, program, "{printed}");
        assert_eq!(again.to_string(), printed);
        println!("{printed}");
    }
}
