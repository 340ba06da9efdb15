"""Guards as Dynamo prints them, with the mechanism, the argument and what was before that each must be read as."""

from __future__ import annotations

CODE = "                              # return x * n  # train.py:12 in step"
STACK = '\nUser stack trace:\n  File "train.py", line 12, in step\n    return x * n'
KEYS = "DispatchKeySet({}, BackendSelect{})"
# PyTorch 2.13's own words, with the compile's id: mechanism, argument, before
TEXTS: dict[str, tuple[str | None, str | None, str | None]] = {
    # of PyTorch 2.8, without types, with hints in line
    "0/0: ___check_obj_id(G['helper'].__code__, 1400)      ": ("identity", "helper", "function"),
    "0/0: hasattr(x, '_dynamo_dynamic_indices') == False": ("config", "mark_dynamic", None),
    "0/0: self.calls == 0      (HINT: make this integer dynamic)": ("module_attribute", "self.calls", "0"),
    # tensors
    "0/1: tensor 'x' size mismatch at index 0. expected 4, actual 5": ("shape", "x", "size 4 at dimension 0"),
    "0/0: tensor 'batch['x']' rank mismatch. expected 1, actual 2": ("shape", "batch['x']", "rank 1"),
    "0/0: tensor 'x' dtype mismatch. expected Float, actual Double": ("dtype", "x", "f32"),
    "0/0: tensor 'x' stride mismatch at index 0. expected 3, actual 1": ("layout", "x", "stride 3 at dimension 0"),
    "0/0: tensor 'x' requires_grad mismatch. expected requires_grad=0": ("requires_grad", "x", "no requires_grad"),
    "0/1: tensor 'self._modules['lin']._parameters['weight']' requires_grad mismatch. expected requires_grad=1. "
    "Guard failed on a parameter, consider using torch._dynamo.config.force_parameter_static_shapes = False": (
        "requires_grad",
        "self.lin.weight",
        "requires_grad",
    ),
    "0/0: tensor '___from_numpy(x)' dtype mismatch. expected Double, actual Float": ("dtype", "x", "f64"),
    "0/0: tensor 'x' dispatch key set mismatch. expected "
    f"{KEYS.format('CPU', ', ADInplaceOrView, AutogradCPU')}, actual {KEYS.format('CPU', ', ADInplaceOrView')}": (
        "grad_mode",
        None,
        "on",
    ),
    "0/0: tensor 'x' dispatch key set mismatch. expected "
    f"{KEYS.format('CPU', ', AutogradCPU')}, actual {KEYS.format('Meta', ', AutogradMeta')}": ("device", "x", None),
    "0/0: tensor 'x' dispatch key set mismatch. expected "
    f"{KEYS.format('CPU', '')}, actual {KEYS.format('SparseCPU', '')}": ("layout", "x", None),
    "0/0: tensor 'x' dispatch key set mismatch. expected "
    f"{KEYS.format('CPU', '')}, actual {KEYS.format('CPU', ', Conjugate')}": (None, None, None),
    # of PyTorch 2.6
    "0/0: tensor 'L['x']' dispatch key set mismatch. expected "
    f"{KEYS.format('CPU', ', AutogradCPU')}, actual {KEYS.format('CPU', ', AutogradCPU, AutocastCPU')}": (
        "autocast",
        None,
        None,
    ),
    '0/0: Duplicate tensors found: ["x", "y"]': ("aliasing", "y", "another tensor than x"),
    f"0/0: y is x{CODE}": ("aliasing", "y", "the same tensor as x"),
    "0/1: 2 <= x.size()[0]  # return x  # train.py:1 in step (user code shown is first use)": (
        "shape",
        "x",
        "2 <= x.size()[0]",
    ),
    "0/0: y.size()[0] == x.size()[0]  # duck sizing added this equality": ("shape", "y", "y.size()[0] == x.size()[0]"),
    "0/0: ((2*x.size()[0]) % 3) == 0": ("shape", "x", "((2*x.size()[0]) % 3) == 0"),
    # of PyTorch 2.11, the first cut off
    "0/1: (1 + (((((((-1) + min(1024, x.size()[0]) | (((-1) + min(1024, x.size()[0])) // 2)) | (((-1) + mi": (
        "shape",
        "x",
        None,
    ),
    "3/1: ___as_tensor(self.param_groups[0]['lr']).item() == 0.0009  # (unknown source "
    "___as_tensor(self.param_groups[0]['lr']).item(), please file a bug)": (
        "python_scalar",
        "self.param_groups[0]['lr']",
        "0.0009",
    ),
    "0/0: __dtensor_spec_139636727472480": ("sharding", None, None),
    "0/0: _has_dynamo_dim_marking is present on runtime tensor but was absent at compile time": (
        "config",
        "mark_dynamic",
        None,
    ),
    # modes
    "0/0: GLOBAL_STATE changed: grad_mode ": ("grad_mode", None, None),
    "0/0: GLOBAL_STATE changed: autocast(cpu)_enabled ": ("autocast", None, None),
    "0/2: GLOBAL_STATE changed: default_dtype ": ("config", "default_dtype", None),
    "0/0: GLOBAL_STATE changed: cuda_matmul_precision ": ("config", "allow_tf32", None),
    "0/0: ___check_torch_function_mode_stack()": ("config", "torch_function_modes", None),
    f"0/0: fn._modules['1'].training == True{CODE}{STACK}": ("training_mode", None, "on"),
    # constants
    f"0/0: n == 2{CODE}{STACK}": ("python_scalar", "n", "2"),
    f"0/2: n == True{CODE}{STACK}": ("python_scalar", "n", "True"),
    f"0/0: n == -1.5{CODE}": ("python_scalar", "n", "-1.5"),
    f"0/0: mode == 'a == b'{CODE}": ("python_scalar", "mode", "'a == b'"),
    f"0/0: d == torch.float32{CODE}": ("python_scalar", "d", "torch.float32"),
    f"0/0: (type(m) is float and __math_isnan(m)){CODE}": ("python_scalar", "m", "nan"),
    "2/0: self.param_groups[0]['lr'] == 0.1": ("python_scalar", "self.param_groups[0]['lr']", "0.1"),
    f"0/0: self.scale == 2.0{CODE}{STACK}": ("module_attribute", "self.scale", "2.0"),
    f"0/0: fn._modules['1'].p == 0.5{CODE}": ("module_attribute", "fn[1].p", "0.5"),
    f"0/0: G['LR'] == 0.1{CODE}": ("global", "LR", "0.1"),
    f"0/1: G['CFG']['a'] == 1{CODE}": ("global", "CFG['a']", "1"),
    f"0/2: G['cfg'].lr == 0.1{CODE}": ("module_attribute", "cfg.lr", "0.1"),
    '1/0: g.__closure__[0].cell_contents == 1  # def g(y): return y*k  # train.py:5 in g (HINT: guard on "k")': (
        "closure",
        "k",
        "1",
    ),
    # types and objects
    f"0/0: hid is None{CODE}": ("type", "hid", "None"),
    "0/0: expected type of 'x' to be a tensor type, ' but found <class 'float'>": ("type", "x", "Tensor"),
    # of PyTorch 2.15
    "0/0: expected type of 'x' to be <class 'torch.Tensor'>, but found <class 'float'>": ("type", "x", "Tensor"),
    "0/0: expected type of 'x' to be <class 'torch.nn.parameter.Parameter'>, but found <class 'torch.Tensor'>": (
        "type",
        "x",
        "Parameter",
    ),
    f"0/1: ___check_type_id(n, 1399417), type=<class 'float'>{CODE} (HINT: type float)": ("type", "n", "float"),
    f"0/7: ___check_type_id(self._modules['drop'], 941), type=<class 'torch.nn.Dropout'>{CODE}": (
        "identity",
        "self.drop",
        "Dropout",
    ),
    "0/4: ___check_obj_id(G['helper'].__code__, 1405), type=<class 'code'>": ("identity", "helper", "function"),
    "0/0: ___check_obj_id(fn, 140439264606080)                   ": ("identity", "fn", None),
    "0/0: ___check_type_id(config, 94453421172032)               ": ("type", "config", None),
    "0/0: ___check_type_id(self._modules['layer'], 93856209854048)": ("type", "self.layer", None),
    "0/0: ": (None, None, None),
    "1/1: ClosureGuardAccessor: Not a function on g.__closure__": ("identity", "g", "function"),
    "0/0: Cache line invalidated because L['self'] got deallocated": (
        "identity",
        "self",
        "an object that was freed",
    ),
    # containers
    f"0/0: len(xs) == 1{CODE}": ("container", "xs", "container of 1"),
    "0/1: len(xs) != 1": ("container", "xs", "container of 1"),
    f"0/0: not cache{CODE}": ("container", "cache", "container of 0"),
    f"0/0: list(dict.keys(xs))[0] == 'a'{CODE}": ("container", "xs", "with key 'a'"),
    f"0/0: ___dict_contains('a', d){CODE}": ("container", "d", "with key 'a'"),
    f"0/1: not set.__contains__(d, 'a'){CODE}": ("container", "d", "without key 'a'"),
    "0/1: KeyError on batch['mask']": ("container", "batch", None),
    # stories
    f"0/0: ps[0].grad is None{CODE}": ("gradient_state", "ps[0].grad", "None"),
    "2/1: self.param_groups[0]['params'][0].grad is not None": (
        "gradient_state",
        "self.param_groups[0]['params'][0].grad",
        "a value",
    ),
}
