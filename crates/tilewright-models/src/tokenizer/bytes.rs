//! The alphabet of byte-level vocabularies: each byte is one printable character.
//!
//! Bytes that are printable in Latin-1 stand for themselves; the others, in order, are the characters from U+0100 on.

/// Whether a byte stands for itself.
const fn plain(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// How many bytes do not stand for themselves.
const SHIFTED: usize = 68;

/// The bytes that do not stand for themselves, in order.
const SHIFTED_BYTES: [u8; SHIFTED] = {
    let mut bytes = [0; SHIFTED];
    let (mut byte, mut count) = (0u8, 0);
    while count < SHIFTED {
        if !plain(byte) {
            bytes[count] = byte;
            count += 1;
        }
        byte = byte.wrapping_add(1);
    }
    bytes
};

/// The characters of all bytes.
const CHARS: [char; 256] = {
    let mut chars = ['\0'; 256];
    let (mut byte, mut shifted) = (0, 0);
    while byte < 256 {
        if plain(byte as u8) {
            chars[byte] = byte as u8 as char;
        } else {
            chars[byte] = match char::from_u32(0x100 + shifted) {
                Some(c) => c,
                None => '\0',
            };
            shifted += 1;
        }
        byte += 1;
    }
    chars
};

/// The character of a byte.
pub(super) fn char_of(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

/// The byte of a character, if it is one of the alphabet.
pub(super) fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    match u8::try_from(code) {
        Ok(byte) => plain(byte).then_some(byte),
        Err(_) => SHIFTED_BYTES.get(usize::try_from(code.checked_sub(0x100)?).ok()?).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_one_to_one() {
        for byte in 0..=255 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!((char_of(b' '), char_of(b'\n'), char_of(0xad), char_of(b'a')), ('Ġ', 'Ċ', 'Ń', 'a'));
        assert_eq!(
            (byte_of(' '), byte_of('\u{ad}'), byte_of('\u{144}'), byte_of('漢')),
            (None, None, None, None)
        );
    }
}
