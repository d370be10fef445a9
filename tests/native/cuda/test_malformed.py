"""Whatever a program loads, the driver answers: it never crashes, hangs or reads what is not there."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.native.cuda.driver import HEADER, INVALID_IMAGE, INVALID_PTX, Driver, DriverError, settings

ROOT = Path(__file__).resolve().parents[3]

MUTATE = """
import ctypes, random, re, sys
from tests.native.cuda.driver import Driver, HEADER, kernel
from tests.native.cuda.test_execution import FUNCTIONS
import numpy as np

BODY = '''
.local .align 8 .b8 own[16]; .shared .align 4 .b8 cells[128]; ld.global.v2.u32 {%r1, %r2}, [%rd0]; add.u32 %r3, %r1, %r2;
{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r3; call (r), twice, (a); ld.param.b32 %r4, [r]; }
mov.f32 %f1, 0f3F800000; cvt.rn.f64.f32 %fd1, %f1; fma.rn.f64 %fd2, %fd1, %fd1, %fd1; st.local.f64 [own+8], %fd2;
st.shared.u32 [cells+4], %r4; bar.sync 0; atom.global.add.u32 %r5, [%rd0+4], 1; setp.lt.and.u32 %p1|%p2, %r5, 7, %p3; @%p1 bra out;
shfl.sync.bfly.b32 %r6|%p4, %r5, 1, 31, -1; selp.b32 %r7, %r6, %r5, %p4; prmt.b32 %r8, %r7, %r6, 0x5410; st.global.u32 [%rd0], %r8; out:
'''
WORDS = ['', ' ', ';', '}', '{', '[', ']', '%r1', '%rd0', '.reg .b32 %q<99999999>;', '.local .b8 z[4294967295];', '4294967296', '-1', '0f', '@', '@%p1',
         'call', '.param .b32 x;', 'ret;', 'bra', 'trap;', '.align 3', '.v4', '%tid.x', '"', '/*', 'ld.global.u32', ':', ',', '+', '\\x00', '\\xff', '_', '|']

def goes_back(text):
    '''Say whether a branch could lead back, and the program run for ever.'''
    return any(re.search(rf'\\b{re.escape(target)}\\s*:', text[:at.start()]) for at in re.finditer(r'bra\\s+(\\S+?);', text) for target in at.groups())

text = kernel(BODY, 1, FUNCTIONS)
rng = random.Random(int(sys.argv[1]))
driver = Driver()
loaded = ran = 0
for _ in range(int(sys.argv[2])):
    mutant = text
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if rng.random() < 0.6:  # a word in the place of another
            words = re.split(r'(\\W+)', mutant)
            words[rng.randrange(len(words))] = rng.choice(words)
            mutant = ''.join(words)
            continue
        start = rng.randrange(len(mutant)); end = min(len(mutant), start + rng.choice([0, 1, 1, 3, 10, 60]))
        piece = rng.choice(WORDS) if rng.random() < 0.7 else mutant[rng.randrange(len(mutant)):][:rng.randint(1, 40)]
        mutant = mutant[:start] + piece + mutant[end:]
    module = ctypes.c_void_p()
    if driver.result('cuModuleLoadData', ctypes.byref(module), ctypes.c_char_p(mutant.encode('latin-1'))):
        continue
    loaded += 1
    function = ctypes.c_void_p()
    if driver.result('cuModuleGetFunction', ctypes.byref(function), module, b'k') == 0 and not goes_back(mutant):
        address = driver.upload(np.zeros(64, 'u4'))
        ran += driver.launch(function, (1,), (32,), [ctypes.c_uint64(address)]) == 0
    driver.renew()
print(loaded, ran)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_two_thousand_broken_modules_each(seed: int) -> None:
    """Some still load, and run: an instruction that is gone or changed may leave a sound program."""
    command = [sys.executable, "-c", MUTATE, str(seed), "2000"]
    environment = settings(gpus="A100", clock="device") | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    loaded, ran = map(int, done.stdout.split())
    assert 100 < loaded < 1900
    assert ran > 50


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello", "a module begins with .version"),
        (HEADER + ".visible .entry k() { add.u32 %r1, %r2, %r3; }", "line 4: register '%r1' is not declared"),
        (HEADER + ".visible .entry k() { bra nowhere; }", "label 'nowhere' (line 4) is not there"),
        (HEADER + ".visible .entry k() { call f; }", "function 'f' is not declared"),
        (HEADER + ".visible .entry k() { ret; ", "'}' is missing"),
        (HEADER + ".extern .func f(); .visible .entry k() { call f; ret; }", "function 'f' is not defined anywhere"),
        (HEADER + ".visible .entry k() { .reg .b64 %rd<2>; ld.global.u32 %rd1, [v]; ret; }", "'v' is not defined anywhere"),
        (HEADER + ".global .b32 a[2] = {1, 2, 3};", "'a' has more values than room"),
        (HEADER + ".visible .entry k() { ret; } .visible .entry k() { ret; }", "'k' is defined twice"),
    ],
)  # fmt: skip
def test_the_log_says_what_is_wrong_with_a_text(driver: Driver, text: str, said: str) -> None:
    import ctypes

    log, module = ctypes.create_string_buffer(300), ctypes.c_void_p()
    options = (ctypes.c_uint * 2)(5, 6)  # where errors go, and how much room there is
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), 300)
    code = driver.result("cuModuleLoadDataEx", ctypes.byref(module), ctypes.c_char_p(text.encode()), 2, options, values)
    assert code == INVALID_PTX
    assert said in log.value.decode()


@pytest.mark.parametrize(
    "image",
    [
        b"\x01\x02\x03" * 20, b"\x50\xed\x55\xba" + b"\xff" * 60, b"\x50\xed\x55\xba\x01\x00\x10\x00" + (200).to_bytes(8, "little") + b"\xff" * 240,
    ],
)  # fmt: skip
def test_an_image_that_is_none(driver: Driver, image: bytes) -> None:
    with pytest.raises(DriverError) as caught:
        driver.load(image)
    assert caught.value.code == INVALID_IMAGE
