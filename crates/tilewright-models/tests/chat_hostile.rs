//! Chat templates that try to take all time or memory.

use std::time::{Duration, Instant};

use tilewright_models::chat::{ChatTemplate, Error, Message, Request};

mod counting;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// The most bytes that any of the templates may take.
const MEMORY: usize = 128 << 20;

fn render(source: &str) -> Result<String, Error> {
    let messages = [Message::new("user", "Hi"), Message::new("assistant", "Hello")];
    ChatTemplate::new(source, "<bos>", "<eos>")?
        .render(&messages, &Request { answer: true, ..Request::default() })
}

/// Repeats a statement on a variable that starts as a value.
fn grow(start: &str, step: &str, then: &str) -> String {
    format!(
        "{{% set n = namespace(x={start}) %}}{{% for i in range(90000) %}}{{% set n.x = {step} %}}{{% endfor %}}{then}"
    )
}

#[test]
fn hostile_templates_end() {
    let rows = [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}".to_string(),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".to_string(),
        "{% macro f(a) %}{{ f(a) }}{{ f(a) }}{% endmacro %}{{ f(1) }}".to_string(),
        "{{ range(1000000000000) }}".to_string(),
        "{{ 'x' * 90000000 }}{{ [1] * 90000000 }}".to_string(),
        "{{ ('x' * 5000000) ~ ('x' * 5000000) }}".to_string(),
        "{{ '%1000000000s' | format('x') }}".to_string(),
        "{{ '{:>1000000000}'.format('x') }}".to_string(),
        "{{ 'x' | center(1000000000) }}".to_string(),
        "{{ 'a\nb' | indent(1000000000) }}".to_string(),
        "{% set n = 'x' * 100000 %}{{ ''.join([n] * 100000) }}".to_string(),
        "{% set n = 'x' * 100000 %}{{ ([n] * 100000) | join('') }}".to_string(),
        "{{ ('x ' * 1000000).split(' ') | length }}".to_string(),
        "{{ ('x' * 1000000).replace('x', 'y' * 1000000) }}".to_string(),
        "{{ ('x' * 1000000) | replace('', 'y' * 1000000) }}".to_string(),
        grow("'xx'", "n.x ~ n.x", ""),
        grow("'xx'", "n.x + n.x", ""),
        grow("[1]", "n.x + n.x", ""),
        grow("'x'", "n.x.replace('x', 'xx')", ""),
        grow("'x'", "n.x | replace('x', 'xx')", ""),
        grow("'x'", "n.x | upper | e | tojson", ""),
        grow("'{}{}'", "n.x.format(n.x, n.x)", ""),
        grow("'x y'", "n.x.split(' ') | map('replace', 'x', 'xx') | join(' ') | indent(1000, true)", ""),
        grow("[[2, 1]]", "(n.x + n.x) | sort(attribute=0)", ""),
        grow("[2, 1]", "(n.x + n.x) | unique | list + n.x", ""),
        grow("{1: 1}", "{1: n.x, n.x: 1}", "{{ n.x[n.x] }}"),
        "{% set s = 'x' * 1000000 %}{% for i in range(100000) %}{{ s == s ~ '' }}{{ s in s }}{% endfor %}".to_string(),
        "{% set s = 'x' * 1000000 %}{% for i in range(100000) %}{% set t = s.find('y') %}{% endfor %}".to_string(),
        grow("[1]", "[n.x]", "{{ n.x }}"),
        grow("[1]", "[n.x]", "{{ n.x == [n.x] }}"),
        grow("[1]", "[n.x]", ""),
        grow("[1]", "{'a': n.x}", ""),
        "{% set n = namespace() %}{% set n.x = n %}{{ n }}".to_string(),
        "{% set n = namespace() %}{% set n.x = [n] %}{{ n.x | tojson }}{{ n.x == [n] }}".to_string(),
        "{% set n = namespace() %}{% set n.x = [n] %}{{ n.x < [n.x] }}{{ n.x in [[n.x]] }}{{ [n.x, n.x] | unique | sort }}"
            .to_string(),
        doubling("{{ n.x }}"),
        doubling("{{ n.x | tojson }}"),
        doubling("{{ n.x == n.y }}"),
        doubling("{{ n.x < n.y }}"),
        doubling("{{ n.x in [n.y] }}"),
        doubling("{{ [n.y, n.x] | unique | sort | list }}"),
        doubling("{{ n.x | string }}{{ n.x ~ 'x' }}"),
        doubling("{{ {n.x: n.y} }}"),
        doubling("{{ raise_exception(n.x) }}"),
        doubling("{{ n.x.foo() }}{{ n.x | nothing }}"),
        doubling("{{ n.x + 1 }}"),
        format!("{{{{ a{} }}}}", ".b".repeat(130_000)),
        format!("{{{{ a{} }}}}", "[0]".repeat(80_000)),
        format!("{{{{ a{} }}}}", "|e".repeat(130_000)),
        format!("{{{{ a{} }}}}", "()".repeat(130_000)),
        format!("{{{{ 1{} }}}}", "+1".repeat(130_000)),
        format!("{{{{ 1{} }}}}", "~1".repeat(130_000)),
        format!("{{{{ 1{} }}}}", "**1".repeat(80_000)),
        format!("{{{{ 1{} }}}}", " is odd".repeat(30_000)),
        format!("{{{{ 1{} }}}}", " if 1".repeat(50_000)),
        format!("{{{{ 1{} }}}}", "<1".repeat(130_000)),
        format!("{{{{ 1{} }}}}", " in 1".repeat(50_000)),
        format!("{{{{ 1{} }}}}", " and 1".repeat(40_000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(60_000)),
        format!("{{{{ {}1 }}}}", "-".repeat(250_000)),
        format!("{{{{ {}1 }}}}", "(".repeat(250_000)),
        format!("{{{{ {}1 }}}}", "[".repeat(250_000)),
        format!("{{{{ {}1 }}}}", "{1:".repeat(80_000)),
        format!("{{{{ {}1{} }}}}", "(".repeat(40_000), ")".repeat(40_000)),
        format!("{{{{ {}1{} }}}}", "[".repeat(40_000), "]".repeat(40_000)),
        format!("{{{{ {}1{} }}}}", "{1:".repeat(40_000), "}".repeat(40_000)),
        "{% if 1 %}".repeat(25_000),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(20_000)),
        "{% for i in [1] %}".repeat(14_000),
        "{#".repeat(130_000),
        "{{".repeat(130_000),
        "{%".repeat(130_000),
    ];
    for source in &rows {
        let (start, before) = (Instant::now(), counting::begin());
        let result = render(source);
        let (time, used) = (start.elapsed(), counting::peak_since(before));
        let shown: String = source.chars().take(70).collect();
        println!("{:6.3} s {:6.1} MB {shown:?}: {result:.80?}", time.as_secs_f64(), used as f64 / 1e6);
        assert!(result.map_or(0, |text| text.len()) < 2_000_000, "{shown}");
        assert!(time < Duration::from_secs(20) && used < MEMORY, "{shown}");
    }
}

/// Lists that share their parts: few values, and more paths through them than anyone can walk.
fn doubling(then: &str) -> String {
    format!(
        "{{% set n = namespace(x=[1], y=[1]) %}}{{% for i in range(100) %}}{{% set n.x = [n.x, n.x] %}}{{% set n.y = [n.y, n.y] %}}{{% endfor %}}{then}"
    )
}
