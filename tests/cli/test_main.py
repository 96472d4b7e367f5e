"""The program around the command line: an interrupt arrives wherever it comes, and exits 130."""

import subprocess
import sys

import pytest

# Commands in place of ours, which meet an interrupt in the ways that libraries do.
COMMANDS = {
    "in a destructor": """
        class Swallows:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(10)
        Swallows()
        while True:
            time.sleep(0.01)
    """,
    "in a callback of the garbage collector": """
        gc.callbacks.append(lambda *_: os.kill(os.getpid(), signal.SIGINT) or time.sleep(10))
        gc.collect()
        gc.callbacks.pop()
        while True:
            time.sleep(0.01)
    """,
    "turned into another error": """
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt:
            error = RuntimeError("INTERNAL: KeyboardInterrupt")
        raise error
    """,
    "and a failed task is a row": """
        for task in range(100):
            try:
                if task == 0:
                    try:
                        os.kill(os.getpid(), signal.SIGINT)
                        time.sleep(10)
                    except KeyboardInterrupt:
                        error = RuntimeError("INTERNAL: KeyboardInterrupt")
                    raise error
                time.sleep(0.1)
            except Exception:
                pass
        print("not interrupted")
    """,
    "in another thread, while the main thread waits": """
        def another():
            time.sleep(0.5)
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        threading.Thread(target=another, daemon=True).start()
        threading.Event().wait()
    """,
    "and crashes at exit": """
        atexit.register(os.abort)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
    """,
}


def run(command):
    script = (
        "import atexit, gc, os, signal, sys, threading, time, types\n"
        "from twoaxis.__main__ import main\n"
        # Shells start work in the background deaf to interrupts.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"def command():\n{command}\n"
        "sys.modules['twoaxis.cli'] = types.SimpleNamespace(main=command)\n"
        "main()"
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("kind", COMMANDS)
def test_an_interrupt_ends_the_program_with_its_exit_code(kind):
    done = run(COMMANDS[kind])
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "interrupted; no file was left half written\n"


def test_nobody_who_cleans_up_is_interrupted_again():
    done = run("""
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        finally:
            time.sleep(1)
            print("a checkpoint was written")
    """)
    assert (done.returncode, done.stdout) == (130, "a checkpoint was written\n")


def test_an_interrupt_waits_for_an_import(tmp_path):
    slow = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.5)\n"
    (tmp_path / "slow.py").write_text(slow + "print('imported', flush=True)\n")
    done = run(f"""
        sys.path.insert(0, {str(tmp_path)!r})
        import slow
        time.sleep(10)
    """)
    assert (done.returncode, done.stdout) == (130, "imported\n")


def test_an_interrupt_after_the_work_does_not_wait_for_the_rest():
    done = run("""
        print("done", flush=True)
        atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT) or time.sleep(10))
        sys.exit(0)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (130, "done\n", "")


def test_without_an_interrupt_nothing_is_changed():
    done = run("""
        print("done")
        atexit.register(print, "cleaned up")
        sys.exit(7)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (7, "done\ncleaned up\n", "")


def test_an_error_that_nobody_can_catch_is_told():
    done = run("""
        class Broken:
            def __del__(self):
                raise RuntimeError("a defect")
        Broken()
        sys.exit(0)
    """)
    assert done.returncode == 0
    assert "a defect" in done.stderr
