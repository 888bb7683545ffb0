//! Chat templates: real ones and hostile ones.

use tilewright_models::chat::{ChatTemplate, Error, Message, Request};

fn conversation() -> Vec<Message> {
    vec![
        Message::new("user", " What is 1 < 2? "),
        Message::new("assistant", "<think>\nhm\n</think>\n\nTrue."),
        Message::new("user", "Naïve \"quotes\" & ünïcode 😀"),
    ]
}

fn render(source: &str, messages: &[Message], answer: bool) -> Result<String, Error> {
    let request = Request { answer, ..Request::default() };
    ChatTemplate::new(source, "<bos>", "<eos>")?.render(messages, &request)
}

const SMOLLM2: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}";

#[test]
fn smollm2() {
    let text = render(SMOLLM2, &conversation()[..1], true).unwrap();
    let expected = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n\
                    <|im_start|>user\n What is 1 < 2? <|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(text, expected);
    assert!(!render(SMOLLM2, &conversation(), false).unwrap().ends_with("assistant\n"));
}

#[test]
fn turns_that_must_alternate() {
    let template = "{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first = messages[0]['content'] + '\n\n' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first = '' -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('roles must alternate user/assistant') }}
    {%- endif -%}
    {%- if message['role'] == 'assistant' -%}
        {%- set role = 'model' -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (first if loop.first else '') }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {{ raise_exception('parts') }}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}
";
    let expected = "<bos><start_of_turn>user\nWhat is 1 < 2?<end_of_turn>\n<start_of_turn>model\n<think>\nhm\n</think>\n\n\
                    True.<end_of_turn>\n<start_of_turn>user\nNaïve \"quotes\" & ünïcode 😀<end_of_turn>\n\
                    <start_of_turn>model\n";
    assert_eq!(render(template, &conversation(), true).unwrap(), expected);
    let refused = render(template, &conversation()[1..], true).unwrap_err();
    assert_eq!(refused, Error::Refused("roles must alternate user/assistant".into()));
    assert_eq!(
        refused.to_string(),
        "chat template refuses the messages: roles must alternate user/assistant"
    );
}

#[test]
fn thinking_and_methods() {
    let template = "{%- set ns = namespace(last=messages|length - 1, found=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if not ns.found and message.role == 'user' and not message.content.startswith('<tool') %}
        {%- set ns.last = index %}{%- set ns.found = true %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- generation %}
    {{- loop.index0 ~ ':' ~ message.role.upper() ~ ':' ~ content.strip() ~ (' last' if loop.index0 == ns.last else '') }}
    {%- endgeneration %}
    {%- if loop.last %}{% break %}{% endif %}
    {{- '|' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- ' <think></think>' }}{%- endif %}
    {%- if strftime_now is defined %}{{- strftime_now('%d') }}{%- endif %}
    {%- if not tools is none %}{{- 'tools' }}{%- endif %}
{%- endif %}
{{- messages[0] | tojson }}{{ {'k': [1, 2.5, true, none, '<\\n>']} | tojson(indent=2) }}";
    let mut request = Request { answer: true, ..Request::default() };
    request.switches.insert("enable_thinking".into(), false);
    let text = ChatTemplate::new(template, "", "").unwrap().render(&conversation(), &request).unwrap();
    let expected = "0:USER:What is 1 < 2?|1:ASSISTANT:True.|2:USER:Naïve \"quotes\" & ünïcode 😀 last <think></think>\
                    {\"role\": \"user\", \"content\": \" What is 1 < 2? \"}{\n  \"k\": [\n    1,\n    2.5,\n    true,\n    null,\n    \
                    \"<\\n>\"\n  ]\n}";
    assert_eq!(text, expected);
}

#[test]
fn long_conversations_are_within_the_limits() {
    let turn = "x".repeat(20_000);
    let role = |i| if i % 2 == 0 { "user" } else { "assistant" };
    let messages: Vec<_> = (0..200).map(|i| Message::new(role(i), turn.as_str())).collect();
    assert!(render(SMOLLM2, &messages, true).unwrap().len() > 4_000_000);
    let short: Vec<_> = (0..5000).map(|i| Message::new(role(i), "hi")).collect();
    assert!(render(SMOLLM2, &short, true).is_ok());
}

#[test]
fn wrong_templates() {
    let message = |source| render(source, &conversation(), true).unwrap_err().to_string();
    assert_eq!(message("a\n{% if %}"), "chat template, line 2: a value expected, the end of the tag found");
    assert!(message("{{ messages[0].content.nothing() }}").contains("method"));
    assert!(message("{{ nothing.at.all }}").contains("undefined"));
    for source in
        ["{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}"]
    {
        assert!(
            matches!(ChatTemplate::new(source, "", ""), Err(Error::Template { line: Some(1), .. })),
            "{source}"
        );
    }
    assert!(matches!(ChatTemplate::new(&"x".repeat(1 << 20), "", ""), Err(Error::Limit(_))));
    let much = [Message::new("user", "x".repeat(1 << 25))];
    assert!(matches!(render(SMOLLM2, &much, true), Err(Error::Limit(_))));
}

#[test]
fn the_language() {
    let text = |source: &str| match render(source, &conversation(), false) {
        Ok(text) => text,
        Err(error) => error.to_string(),
    };
    let rows = [
        (
            "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1 + 2 * 3 }}",
            "3 -4 2 3.5 1024 7",
        ),
        (
            "{{ 1.0 }} {{ 2.5 * 2 }} {{ true }} {{ none }} {{ [1, 'a', none] }} {{ {'a': 'it\\'s'} }}",
            "1.0 5.0 True None [1, 'a', None] {'a': \"it's\"}",
        ),
        ("{{ 'a' ~ 1 ~ none }} {{ 'ab' * 2 }} {{ [1] + [2] }} {{ 'a' 'b' }}", "a1None abab [1, 2] ab"),
        (
            "{{ 'abc'[1] }}{{ 'abc'[-1] }}{{ 'abcd'[1:3] }}{{ 'abcd'[::-1] }}{{ 'abcd'[-2:] }}{{ 'abcd'[:-1] }}{{ 'abcd'[10:] }}",
            "bcbcdcbacdabc",
        ),
        ("{{ [1, 2, 3][::-1] }}{{ [1, 2, 3][3::-2] }}{{ [1, 2, 3][0:10:2] }}", "[3, 2, 1][3, 1][1, 3]"),
        (
            "{{ 1 < 2 < 3 }}{{ 1 < 2 > 5 }}{{ 'a' in 'abc' }}{{ 2 not in [1, 2] }}{{ 'k' in {'k': 1} }}",
            "TrueFalseTrueFalseTrue",
        ),
        ("{{ not 1 == 2 }}{{ 1 if 0 else 2 }}{{ 1 if 0 }}{{ 0 or 'x' }}{{ 1 and '' }}", "True2x"),
        (
            "{{ x is defined }}{{ x is not defined }}{{ x | default('d') }}{{ none is none }}{{ 3 is odd }}{{ 4 is divisibleby 2 }}",
            "FalseTruedTrueTrueTrue",
        ),
        (
            "{% for a, b in {'x': 1, 'y': 2}.items() %}{{ a }}{{ b }}{{ loop.index }}{{ loop.last }} {% endfor %}",
            "x11False y22True ",
        ),
        (
            "{% for i in [1, 2, 3, 4] if i is even %}{{ i }}{{ loop.length }}{% else %}none{% endfor %}{% for i in [] %}{% else %}none{% endfor %}",
            "2242none",
        ),
        (
            "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "02",
        ),
        (
            "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}{% if 1 %}{% set x = 3 %}{% endif %}{{ x }}",
            "13",
        ),
        (
            "{% macro f(a, b=2) %}{{ a }}-{{ b }}{{ z }}{% endmacro %}{% set z = 9 %}{{ f(1) }} {{ f(b=1, a=0) }}",
            "1-29 0-19",
        ),
        ("{% set x %}a{{ 1 }}{% endset %}{{ x | upper }}{% with y = 2 %}{{ y }}{% endwith %}{{ y }}", "A12"),
        ("{% raw %}{{ x }}{% endraw %}{# c #}!", "{{ x }}!"),
        ("{{ messages | map(attribute='role') | join(', ') }}", "user, assistant, user"),
        (
            "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('role', 'eq', 'user') | first | length }}",
            "22",
        ),
        (
            "{{ [3, 1, 2] | sort | join }}{{ ['b', 'a', 'b'] | unique | join }}{{ {'b': 1, 'a': 2} | dictsort }}",
            "123ba[['a', 2], ['b', 1]]",
        ),
        (
            "{{ ' x ' | trim }}|{{ 'a b' | title }}|{{ 'aB' | capitalize }}|{{ 'a-a' | replace('a', 'b') }}|{{ '<' | e }}",
            "x|A B|Ab|b-b|&lt;",
        ),
        (
            "{{ 'a,b,c'.split(',', 1) }}{{ 'a b  c'.split() }}{{ 'a,b,c'.rsplit(',', 1)[-1] }}{{ ','.join(['x', 'y']) }}",
            "['a', 'b,c']['a', 'b', 'c']cx,y",
        ),
        (
            "{{ '{} {x} {{}} {0}'.format('a', x=1) }}{{ 'abc'.find('c') }}{{ 'xxabxx'.strip('x') }}{{ 'Ab'.endswith(['c', 'b']) }}",
            "a 1 {} a2abTrue",
        ),
        (
            "{{ {'a': 1}.get('b', 5) }}{{ {'a': 1}.get('b') }}{{ {'a': {'b': 3}}.a.b }}{{ messages[0].nothing }}",
            "5None3",
        ),
        ("{{ {'a': [1, 'x']} | tojson }}{{ 'é\"\\n' | tojson }}", "{\"a\": [1, \"x\"]}\"é\\\"\\n\""),
        ("  {% if 1 %}\n  a\n  {% endif %}\nb\n", "  a\nb"),
        ("a\n  {{- 1 }} {%- if 1 %} x {%+ endif -%}  \n b", "a1 x b"),
        ("{{ 9223372036854775807 + 1 }}", "chat template, line 1: the result exceeds 64 bits"),
        ("\n{{ 1 / 0 }}", "chat template, line 2: division by zero"),
        ("{{ x.y }}", "chat template, line 1: an undefined value has no attribute `y`"),
        ("{{ 'a' + 1 }}", "chat template, line 1: add of a string and a number"),
        ("{{ trim('x') }}", "chat template, line 1: there is no function `trim`"),
        ("{{ 'x' | trim(1, 2, 3) }}", "chat template, line 1: trim: 2 arguments too many, or not known"),
        ("{% set a, b = [1] %}", "chat template, line 1: 1 values for 2 names"),
        ("{% break %}", "chat template, line 1: `break` outside of a loop"),
        ("{% endif %}", "chat template, line 1: `endif` is not supported; if, for, set, with and macro are"),
        ("{{ '\\", "chat template, line 1: a string with a wrong escape"),
        ("{{ 99999999999999999999 }}", "chat template, line 1: an integer of more than 64 bits"),
    ];
    for (source, expected) in rows {
        assert_eq!(text(source), expected, "{source}");
    }
}

#[test]
fn random_templates_never_panic() {
    let pieces = [
        "{{ ",
        " }}",
        "{% ",
        " %}",
        "{%- ",
        " -%}",
        "{#",
        "#}",
        "if ",
        "else ",
        "elif ",
        "endif ",
        "for ",
        "in ",
        "endfor ",
        "set ",
        "endset ",
        "macro ",
        "endmacro ",
        "with ",
        "endwith ",
        "raw ",
        "endraw ",
        "break ",
        "continue ",
        "generation ",
        "x ",
        "y ",
        "loop",
        "messages",
        "not ",
        "and ",
        "or ",
        "is ",
        "defined ",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        ".",
        "=",
        "==",
        "<",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "~",
        "|",
        "'a'",
        "\"é\"",
        "'\\u",
        "0",
        "1",
        "-9223372036854775807",
        "2.5",
        "1e999",
        "trim",
        "join",
        "length",
        "range(3)",
        "split",
        "namespace(x=1)",
        "x.y",
        "[::-1]",
        "[1:",
        "content",
        "\n",
        "  ",
        "ü",
        "f(x)",
        ".items()",
        "| sort ",
        "| tojson(indent=2) ",
        "% 0 ",
        "// -1 ",
        "none ",
        "true ",
    ];
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % n
    };
    let mut rendered = 0;
    for index in 0..20_000 {
        let mut source = String::new();
        let expression = index % 2 == 0;
        source.push_str(if expression { "{% set x = [3, 'b'] %}{{ x " } else { "" });
        for _ in 0..1 + random(12) {
            source.push_str(pieces[random(pieces.len())]);
        }
        source.push_str(if expression { " }}" } else { "" });
        rendered += usize::from(render(&source, &conversation(), true).is_ok());
    }
    assert!(rendered > 500, "{rendered}");
}
