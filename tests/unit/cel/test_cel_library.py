# SPDX-License-Identifier: Apache-2.0
"""Each function of the libraries: what it gives, and what it refuses."""

from typing import Any

import pytest

from rdd import cel


def _run(expression: str) -> Any:
    return cel.Environment({}).compile(expression).evaluate({}, budget=cel.Budget())


TRUE = """
[1, 2, 3].isSorted()
![3, 1].isSorted()
['a', 'b'].isSorted()
[].isSorted()
[duration('1s'), duration('2s')].isSorted()
[1, 2, 3].sum() == 6
[1.5, 2.5].sum() == 4.0
[1u, 2u].sum() == 3u
[duration('1s'), duration('2s')].sum() == duration('3s')
[3, 1, 2].min() == 1
[3, 1, 2].max() == 3
['b', 'a'].min() == 'a'
[timestamp('2020-01-01T00:00:00Z'), timestamp('2021-01-01T00:00:00Z')].max().getFullYear() == 2021
['a', 'b', 'a'].indexOf('a') == 0
['a', 'b', 'a'].lastIndexOf('a') == 2
['a'].indexOf('z') == -1
[1, 2, 3, 4].slice(1, 3) == [2, 3]
[1, 2].slice(1, 1) == []
[[1, 2], [3]].flatten() == [1, 2, 3]
[[[1], [2]]].flatten(2) == [1, 2]
[3, 1, 2].sort() == [1, 2, 3]
['b', 'a'].sort() == ['a', 'b']
[].sort() == []
[{'n': 2}, {'n': 1}].sortBy(e, e.n).map(e, e.n) == [1, 2]
[3, -1, 2].sortBy(e, -e) == [3, 2, -1]
lists.range(3) == [0, 1, 2]
lists.range(0) == []
[1, 2].reverse() == [2, 1]
[1, 2, 1, 1].distinct() == [1, 2]
[1, 2].first().value() == 1
[1, 2].last().value() == 2
![].first().hasValue()
optional.unwrap([optional.of(1), optional.none()]) == [1]
[optional.of(1), optional.none()].unwrapOpt() == [1]
'abc 123'.find('[0-9]+') == '123'
'abc'.find('[0-9]+') == ''
'123 abc 456'.findAll('[0-9]+') == ['123', '456']
'123 abc 456'.findAll('[0-9]+', 1) == ['123']
'123 abc 456'.findAll('[0-9]+', 0) == []
'123 abc 456'.findAll('[0-9]+', -1) == ['123', '456']
'äöü'.find('ö') == 'ö'
'abc'.matches('^a[b-d]+$')
sets.contains([1, 2, 3], [2, 3])
!sets.contains([1, 2], [3])
sets.contains([1], [])
sets.equivalent([1, 2], [2, 1, 1])
!sets.equivalent([1, 2], [1])
sets.intersects([1, 2], [2, 3])
!sets.intersects([1], [])
isQuantity('1.5Gi')
!isQuantity('abc')
quantity('1Gi').isGreaterThan(quantity('1G'))
quantity('1').isLessThan(quantity('2'))
quantity('1000m') == quantity('1')
quantity('1k').compareTo(quantity('1000')) == 0
quantity('1').compareTo(quantity('2')) == -1
sign(quantity('-1')) == -1
quantity('1k').asInteger() == 1000
quantity('1k').isInteger()
!quantity('1.5').isInteger()
quantity('1.5').asApproximateFloat() == 1.5
quantity('1').add(quantity('500m')) == quantity('1.5')
quantity('1').add(2) == quantity('3')
quantity('1').sub(quantity('500m')) == quantity('500m')
quantity('3').sub(1) == quantity('2')
isIP('127.0.0.1')
isIP('::1')
!isIP('127.0.0.256')
!isIP('127.0.0.01')
!isIP('::ffff:1.2.3.4')
!isIP('fe80::1%eth0')
ip('127.0.0.1').family() == 4
ip('::1').family() == 6
ip('::1') == ip('0:0:0:0:0:0:0:1')
ip.isCanonical('2001:db8::abcd')
!ip.isCanonical('2001:DB8::ABCD')
ip('0.0.0.0').isUnspecified()
ip('127.0.0.1').isLoopback()
ip('224.0.0.1').isLinkLocalMulticast()
!ip('224.0.1.1').isLinkLocalMulticast()
ip('ff02::1').isLinkLocalMulticast()
ip('169.254.1.1').isLinkLocalUnicast()
ip('192.168.0.1').isGlobalUnicast()
!ip('255.255.255.255').isGlobalUnicast()
!ip('ff00::1').isGlobalUnicast()
string(ip('2001:DB8::1')) == '2001:db8::1'
isCIDR('10.0.0.0/8')
!isCIDR('10.0.0.0')
!isCIDR('10.0.0.0/33')
!isCIDR('10.0.0.0/08')
cidr('10.0.0.0/8').containsIP('10.1.2.3')
cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))
!cidr('10.0.0.0/8').containsIP('11.0.0.1')
!cidr('10.0.0.0/8').containsIP('::1')
cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')
cidr('10.0.0.0/8').containsCIDR(cidr('10.0.0.0/8'))
!cidr('10.0.0.0/16').containsCIDR('10.0.0.0/8')
cidr('10.1.2.3/8').ip() == ip('10.1.2.3')
cidr('10.1.2.3/8').prefixLength() == 8
cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')
string(cidr('10.0.0.0/8')) == '10.0.0.0/8'
isURL('https://example.com:443/path?q=1')
isURL('/absolute/path')
!isURL('relative')
!isURL('')
!isURL('https://a:b:c/')
url('https://user@example.com:443/a%20b?k=v&k=w#x').getScheme() == 'https'
url('https://example.com:443/').getHost() == 'example.com:443'
url('https://example.com:443/').getHostname() == 'example.com'
url('https://[::1]:80/').getHostname() == '::1'
url('https://[::1]/').getPort() == ''
url('https://example.com:443/').getPort() == '443'
url('https://example.com/').getPort() == ''
url('https://example.com/a b/').getEscapedPath() == '/a%20b/'
url('https://example.com/a%20b').getEscapedPath() == '/a%20b'
url('https://example.com/?a=1&b=2&a=3').getQuery() == {'a': ['1', '3'], 'b': ['2']}
url('/path').getHost() == ''
url('https://a/') == url('https://a/')
!format.dns1123Label().validate('my-name').hasValue()
format.dns1123Label().validate('My-Name').hasValue()
!format.dns1123Subdomain().validate('a.b.c').hasValue()
format.dns1035Label().validate('1a').hasValue()
!format.qualifiedName().validate('example.com/name').hasValue()
!format.dns1123LabelPrefix().validate('prefix-').hasValue()
!format.dns1123SubdomainPrefix().validate('a.prefix-').hasValue()
!format.dns1035LabelPrefix().validate('prefix-').hasValue()
!format.labelValue().validate('a_b').hasValue()
format.labelValue().validate('a b').hasValue()
!format.uri().validate('http://example.com').hasValue()
format.uri().validate('nope').value() == ['parse "nope": invalid URI for request']
!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()
format.uuid().validate('123').value() == ['does not match the UUID format']
!format.byte().validate('aGVsbG8=').hasValue()
format.byte().validate('???').value() == ['invalid base64']
!format.date().validate('2021-01-31').hasValue()
format.date().validate('2021-02-31').value() == ['invalid date']
!format.datetime().validate('2021-01-01T00:00:00Z').hasValue()
format.datetime().validate('2021').value() == ['invalid datetime']
format.named('dns1123Label').hasValue()
!format.named('nope').hasValue()
format.named('uuid').value() == format.uuid()
isSemver('1.2.3-rc.1+build')
!isSemver('1.2')
!isSemver('v1.2.3')
isSemver('v1.2', true)
semver('1.2.3').major() == 1
semver('1.2.3').minor() == 2
semver('1.2.3').patch() == 3
semver('01.02', true) == semver('1.2.0')
semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))
semver('1.0.0-rc.10').isGreaterThan(semver('1.0.0-rc.2'))
semver('1.0.0-alpha').isLessThan(semver('1.0.0-alpha.1'))
semver('1.0.0+a').compareTo(semver('1.0.0+b')) == 0
strings.quote('a"b\\n') == '"a\\\\"b\\\\n"'
'%s'.format([duration('90s')]) == '90s'
'%s'.format([timestamp('2020-01-01T00:00:00Z')]) == '2020-01-01T00:00:00Z'
'%s'.format([type(1)]) == 'int'
'%x'.format(['ab']) == '6162'
'%X'.format([b'\\xab']) == 'AB'
'%e'.format([1052.032911275]) == '1.052033 × 10⁰³'
'%.2e'.format([0.00271828]) == '2.718280 × 10⁻⁰³'
'%f'.format([2.71828]) == '2.718280'
'%.2f'.format([1234567.891]) == '1,234,567.89'
'%f'.format([1.0 / 0.0]) == '∞'
'%f'.format(['-Infinity']) == '-∞'
'%s'.format([-1.0 / 0.0]) == '-Inf'
'%s'.format([['a', "b"]]) == '["a", "b"]'
'%s'.format([[1.5, 2.0]]) == '[1.500000, 2.000000]'
'%s'.format([{'b': [1], 'a': [2]}]) == '{"a":[2], "b":[1]}'
'%s'.format([[duration('1s')]]) == '[duration("1s")]'
string('%s').format([1, 2]) == '1'
'%s%%'.format([5]) == '5%'
timestamp('2020-01-01T00:00:00Z').getMilliseconds('+01:00') == 0
duration('-90m').getHours() == -1
duration('1.5s').getMilliseconds() == 1500
string(1.0 / 0.0) == '+Inf'
int(duration('1s')) == 1000000000
int(timestamp('1970-01-01T00:01:00Z')) == 60
duration(5) == duration('5ns')
duration('1h1.5m') == duration('3690s')
bool('T') && !bool('0')
type(optional.of(1)) == optional_type
type(timestamp(0)) == google.protobuf.Timestamp
dyn([1, 2]).sum() == 3
dyn(['a']).join('') == 'a'
"""


@pytest.mark.parametrize("expression", TRUE.strip().splitlines())
def test_function_returns_the_expected_value(expression: str) -> None:
    assert _run(expression) is True


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("dyn([]).min()", "min called on empty list"),
        ("dyn([]).max()", "max called on empty list"),
        ("[9223372036854775807, 1].sum()", "integer overflow"),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
        ("[1].slice(-1, 1)", "cannot slice(-1, 1), negative indexes not supported"),
        (
            "[1].slice(1, 0)",
            "cannot slice(1, 0), start index must be less than or equal to end index",
        ),
        ("[1].flatten(-1)", "level must be non-negative"),
        ("lists.range(-1)", "lists.range: size must be non-negative, got -1"),
        ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
        ("dyn([[1]]).sort()", "list elements must be comparable"),
        ("'a'.find(string('('))", "Illegal regex: error parsing regexp: missing closing ): `(`"),
        ("'a'.matches(string('['))", "error parsing regexp: missing closing ]: `[`"),
        (
            "quantity('x')",
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("quantity('1.5').asInteger()", "cannot convert value to integer"),
        (
            "ip('1.2.3.256')",
            'IP Address "1.2.3.256" parse error during conversion from string: '
            'ParseAddr("1.2.3.256"): IPv4 field has value >255',
        ),
        (
            "ip('nope')",
            'IP Address "nope" parse error during conversion from string: '
            'ParseAddr("nope"): unable to parse IP',
        ),
        ("ip('::ffff:1.2.3.4')", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        ("ip('fe80::1%e')", 'IP address "fe80::1%e" with zone value is not allowed'),
        (
            "cidr('1.2.3.4')",
            "network address parse error during conversion from string: "
            "network address parse error during conversion from string: "
            "netip.ParsePrefix(\"1.2.3.4\"): no '/'",
        ),
        (
            "url('nope')",
            'URL parse error during conversion from string: parse "nope": invalid URI for request',
        ),
        (
            "url('https://a:b/')",
            "URL parse error during conversion from string: "
            'parse "https://a:b/": invalid port ":b" after host',
        ),
        (
            "url('https://a/%zz')",
            "URL parse error during conversion from string: "
            'parse "https://a/%zz": invalid URL escape "%zz"',
        ),
        ("semver('1.2')", "No Major.Minor.Patch elements found"),
        ("semver('1.02.3')", 'Minor number must not contain leading zeroes "02"'),
        (
            "semver('1-rc', true)",
            "short version cannot contain PreRelease/Build meta data",
        ),
        ("''.substring(0, 1)", "index out of range: 1"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("'abc'.charAt(4)", "index out of range: 4"),
        ("'abc'.indexOf('a', 9)", "index out of range: 9"),
        ("'abc'.lastIndexOf('a', 9)", "index out of range: 9"),
        ("string('%d').format([])", "index 0 out of range"),
        (
            "string('%d').format(['a'])",
            "error during formatting: decimal clause can only be used on integers, "
            "was given string",
        ),
        (
            "'%f'.format([dyn(1)])",
            "error during formatting: fixed-point clause can only be used on doubles, "
            "was given int",
        ),
        (
            "string('%y').format([1])",
            'could not parse formatting clause: unrecognized formatting clause "y"',
        ),
        ("string('%').format([1])", "unexpected end of string"),
        (
            "timestamp(string('2020'))",
            "type conversion error from 'string' to 'google.protobuf.Timestamp'",
        ),
        (
            "timestamp(string('2020-13-01T00:00:00Z'))",
            "type conversion error from 'string' to 'google.protobuf.Timestamp'",
        ),
        (
            "duration(string('5'))",
            "type conversion error from 'string' to 'google.protobuf.Duration'",
        ),
        (
            "duration(string('5x'))",
            "type conversion error from 'string' to 'google.protobuf.Duration'",
        ),
        (
            "duration(string('x'))",
            "type conversion error from 'string' to 'google.protobuf.Duration'",
        ),
        ("timestamp(0).getHours('Nowhere/City')", "unknown time zone Nowhere/City"),
        ("uint(-1)", "unsigned integer overflow"),
        ("int(1e30)", "integer overflow"),
        ("double('x')", "type conversion error from 'string' to 'double'"),
        ("bool('x')", "type conversion error from 'string' to 'bool'"),
        ("string(b'\\xff')", "invalid UTF-8 in bytes, cannot convert to string"),
    ],
)
def test_function_rejects_invalid_arguments(expression: str, message: str) -> None:
    with pytest.raises((cel.EvaluationError, cel.ProgramError)) as caught:
        _run(expression)
    assert str(caught.value) == message


def test_a_format_explains_itself() -> None:
    assert _run("format.dns1123Label().validate('A').value()") == [
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
        "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    ]
