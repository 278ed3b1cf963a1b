// Looks at torch's tensors without going through Python: are they as they were, and where are their gradients now?
//
// Asked one by one from Python, a thousand small tensors take longer than their step.  Nothing of torch is linked: Python
// finds the functions in the running process and hands them over.  Every call is made with Python's lock held.

#include <cstdint>
#include <cstring>
#include <vector>

#include "exported.h"

namespace {

using Tensor = const void*;  // at::Tensor: one pointer, to its TensorImpl
using Getter = int32_t (*)(Tensor, int32_t*);
using Sizes = int32_t (*)(Tensor, int64_t**);

}  // namespace

// Functions of torch and of Python; those of torch that return a number return 0 if all went well.
struct fl_torch {
    Getter dtype, layout, device_type;
    int32_t (*dim)(Tensor, int64_t*);
    Sizes sizes, strides;
    int32_t (*data_ptr)(Tensor, void**);
    bool (*is_neg)(Tensor);
    Tensor (*grad)(const void* impl);
    void (*bump_version)(Tensor);
    int64_t (*list_size)(const void* list);
    const void* (*list_item)(const void* list, int64_t i);
    int32_t strided, cpu;   // codes of the layout and the device
    int64_t class_offset;   // from a tensor to its Python object's pointer to its class
};

namespace {

// How a tensor's elements are read: its dtype, and sizes followed by strides at `shape` in one array for all tensors.
struct Form {
    int32_t dtype;
    int32_t dim;
    int64_t shape;
};

const void* impl_of(Tensor tensor) { return *static_cast<const void* const*>(tensor); }

const void* class_of(const fl_torch& torch, Tensor tensor) {
    return *reinterpret_cast<const void* const*>(static_cast<const char*>(tensor) + torch.class_offset);
}

// Whether a real tensor is dense, on the CPU, and holds the values that it stands for.  An undefined tensor, the gradient
// of a parameter that has none, must not be asked for more than its dtype.
bool is_plain(const fl_torch& torch, Tensor tensor) {
    int32_t layout, device;
    return !torch.layout(tensor, &layout) && layout == torch.strided && !torch.device_type(tensor, &device) &&
           device == torch.cpu && !torch.is_neg(tensor);
}

}  // namespace

// Parameters, their gradients and states as they were when an executor was bound to them.
struct fl_watch {
    const fl_torch* torch;
    std::vector<Tensor> params, states;
    std::vector<const void*> classes;  // of the parameters: one may have a gradient of its own making
    std::vector<void*> param_data, state_data;
    std::vector<Form> param_forms, grad_forms;
    std::vector<int64_t> shapes;
    void** grads;

    bool is_as(Tensor tensor, const Form& form) const {
        int32_t dtype;
        int64_t dim;
        int64_t *sizes, *strides;
        if (torch->dtype(tensor, &dtype) || dtype != form.dtype || !is_plain(*torch, tensor)) return false;
        if (torch->dim(tensor, &dim) || dim != form.dim) return false;
        if (torch->sizes(tensor, &sizes) || torch->strides(tensor, &strides)) return false;
        const int64_t* shape = shapes.data() + form.shape;
        return !std::memcmp(sizes, shape, sizeof(int64_t) * dim) &&
               !std::memcmp(strides, shape + dim, sizeof(int64_t) * dim);
    }

    bool record(Tensor tensor, int32_t undefined, std::vector<Form>& forms) {
        int32_t dtype;
        int64_t dim;
        int64_t *sizes, *strides;
        if (torch->dtype(tensor, &dtype) || dtype == undefined || !is_plain(*torch, tensor)) return false;
        if (torch->dim(tensor, &dim) || torch->sizes(tensor, &sizes) || torch->strides(tensor, &strides)) return false;
        forms.push_back({dtype, static_cast<int32_t>(dim), static_cast<int64_t>(shapes.size())});
        shapes.insert(shapes.end(), sizes, sizes + dim);
        shapes.insert(shapes.end(), strides, strides + dim);
        return true;
    }
};

// Remembers real parameters that all have a gradient; null if one of them, or of the gradients, is not plain.  `grads` is where
// the pointers of gradients go; `undefined` the dtype of a gradient that is not there.
FL_API fl_watch* fl_watch_new(const fl_torch* torch, const Tensor* params, int64_t n_params, const Tensor* states,
                              int64_t n_states, void** grads, int32_t undefined) {
    auto* watch = new fl_watch();
    watch->torch = torch;
    watch->params.assign(params, params + n_params);
    watch->states.assign(states, states + n_states);
    watch->grads = grads;
    bool plain = true;
    for (Tensor param : watch->params) {
        void* data;
        plain = plain && watch->record(param, undefined, watch->param_forms) && !torch->data_ptr(param, &data) &&
                watch->record(torch->grad(impl_of(param)), undefined, watch->grad_forms);
        if (!plain) break;
        watch->param_data.push_back(data);
        watch->classes.push_back(class_of(*torch, param));
    }
    for (Tensor state : watch->states) {
        void* data;
        plain = plain && !torch->data_ptr(state, &data);
        if (plain) watch->state_data.push_back(data);
    }
    if (plain) return watch;
    delete watch;
    return nullptr;
}

FL_API void fl_watch_free(fl_watch* watch) { delete watch; }

// Whether nothing but the memory of gradients has changed; their pointers are then this step's.
FL_API int fl_watch_look(fl_watch* watch) {
    const fl_torch& torch = *watch->torch;
    void* data;
    for (size_t i = 0; i < watch->params.size(); ++i) {
        Tensor param = watch->params[i];
        if (class_of(torch, param) != watch->classes[i] || !watch->is_as(param, watch->param_forms[i])) return 0;
        if (torch.data_ptr(param, &data) || data != watch->param_data[i]) return 0;
        Tensor grad = torch.grad(impl_of(param));
        if (!watch->is_as(grad, watch->grad_forms[i]) || torch.data_ptr(grad, &data)) return 0;
        if (!data && watch->param_data[i]) return 0;  // a tensor whose memory is elsewhere
        watch->grads[i] = data;
    }
    for (size_t i = 0; i < watch->states.size(); ++i)
        if (torch.data_ptr(watch->states[i], &data) || data != watch->state_data[i]) return 0;
    return 1;
}

// Writes the positions of parameters that have a gradient; returns how many there are, −1 if one has another class than
// these.
FL_API int64_t fl_with_gradient(const fl_torch* torch, const Tensor* params, const void* const* classes, int64_t n,
                                int32_t undefined, int64_t* found) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) {
        int32_t dtype;
        if (class_of(*torch, params[i]) != classes[i]) return -1;
        if (torch->dtype(torch->grad(impl_of(params[i])), &dtype) || dtype != undefined) found[count++] = i;
    }
    return count;
}

// Tells autograd that the parameters have been written to; 0 if torch refuses.
FL_API int fl_watch_wrote(const fl_watch* watch) {
    try {
        for (Tensor param : watch->params) watch->torch->bump_version(param);
        return 1;
    } catch (...) {
        return 0;
    }
}

// Whether Python lists, in a list of them, hold these very objects: `counts` says how many are in each.
FL_API int fl_same_objects(const fl_torch* torch, const void* lists, const void* const* objects, const int64_t* counts,
                           int64_t n) {
    if (torch->list_size(lists) != n) return 0;
    for (int64_t k = 0; k < n; ++k) {
        const void* list = torch->list_item(lists, k);
        if (torch->list_size(list) != counts[k]) return 0;
        for (int64_t i = 0; i < counts[k]; ++i)
            if (torch->list_item(list, i) != *objects++) return 0;
    }
    return 1;
}
